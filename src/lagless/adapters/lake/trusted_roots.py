"""The certificate authority of `lake.storage.ca_file`, for delta-rs too.

delta-rs has no setting for it. It trusts the authorities of the file that SSL_CERT_FILE names, or
else the system's. So that file is made: what was trusted before, and the store's authority.
"""

import atexit
import os
import tempfile
import threading
from pathlib import Path

from lagless.errors import WrongSettings

SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Where systems keep the authorities that they trust."""
VARIABLE = "SSL_CERT_FILE"
_lock = threading.Lock()
_added: set[bytes] = set()


def add(ca_file: Path) -> bytes:
    """Let this process trust an authority, and return its certificate."""
    try:
        own = ca_file.read_bytes()
    except OSError as error:
        raise WrongSettings(
            f"lake.storage.ca_file: {ca_file} cannot be read ({error.strerror}); it should be a "
            "PEM file with the CA's certificate"
        ) from error
    with _lock:
        if own not in _added or not Path(os.environ.get(VARIABLE, "")).is_file():
            _name(_known().rstrip(b"\n") + b"\n" + own)
            _added.add(own)
    return own


def _known() -> bytes:
    for name in (os.environ.get(VARIABLE, ""), *SYSTEM):
        if name and Path(name).is_file():
            return Path(name).read_bytes()
    return b""


def _name(bundle: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix="lagless-ca-", suffix=".pem")
    atexit.register(Path(name).unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as file:
        file.write(bundle)
    os.environ[VARIABLE] = name
