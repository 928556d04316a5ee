"""Credentials of a shared profile, as the AWS command line keeps them.

obstore looks into the environment, web identity, container and instance metadata by itself, but
not into profiles; delta-rs looks everywhere.
"""

import configparser
import json
import shlex
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FRESH = timedelta(minutes=5)
"""How long what a profile says is taken as it is: profiles are rewritten when keys are renewed."""


def provider(environ: Mapping[str, str]) -> Callable[[], Any] | None:
    """Return what reads the credentials of the profile in use, or None if it is not to be used."""
    # The order of every tool for AWS: environment, profile, web identity, container, instance.
    if environ.get("AWS_ACCESS_KEY_ID") or _profile(environ) is None:
        return None
    return lambda: credentials(environ)


def credentials(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the profile's credentials as obstore takes them."""
    section = _profile(environ)
    if section is None:
        raise PermissionError("the shared profile no longer has credentials")
    if "credential_process" in section:
        command = shlex.split(section["credential_process"])
        said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        expires = said.get("Expiration")
        key, secret, token = said["AccessKeyId"], said["SecretAccessKey"], said.get("SessionToken")
        until = datetime.fromisoformat(expires) if expires else datetime.now(UTC) + FRESH
    else:
        key, secret = section["aws_access_key_id"], section["aws_secret_access_key"]
        token = section.get("aws_session_token")
        until = datetime.now(UTC) + FRESH
    return {
        "access_key_id": key,
        "secret_access_key": secret,
        "token": token or None,
        "expires_at": until,
    }


def _profile(environ: Mapping[str, str]) -> Mapping[str, str] | None:
    """Return the section of the profile in use, if it has credentials."""
    home = Path(environ.get("HOME", "~")).expanduser() / ".aws"
    name = environ.get("AWS_PROFILE", "default")
    shared = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"))
    config = Path(environ.get("AWS_CONFIG_FILE", home / "config"))
    for file, title in ((shared, name), (config, name), (config, f"profile {name}")):
        parser = configparser.RawConfigParser()
        parser.read(file)
        if parser.has_section(title):
            section = parser[title]
            if "aws_access_key_id" in section or "credential_process" in section:
                return dict(section)
    return None
