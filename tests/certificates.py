"""Certificates of an authority of the tests' own."""

import subprocess
from pathlib import Path


def certificates(folder: Path) -> None:
    """Make an authority, a broker's certificate for 127.0.0.1, and one of the client ann."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority")
    openssl(*new, "-keyout", "broker.key", "-out", "broker.csr", "-subj", "/CN=broker")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl(*("x509", "-req", "-in", "broker.csr", "-out", "broker.pem", "-days", "2"), *signing)
    openssl(*new, "-keyout", "ann.key", "-out", "ann.csr", "-subj", "/CN=ann")
    openssl(*("x509", "-req", "-in", "ann.csr", "-out", "ann.pem", "-days", "2"), *signing[:5])
    both = (folder / "broker.key").read_text() + (folder / "broker.pem").read_text()
    (folder / "keystore.pem").write_text(both)
