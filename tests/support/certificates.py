"""Certificates for tests, each its own authority."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path) -> Path:
    """``server.pem`` for localhost and ``client.pem`` for the user ``app``, with their keys."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    for name, subject in (("server", "localhost"), ("client", "app")):
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={subject}"]
        names = ["-addext", "subjectAltName=DNS:localhost"]
        subprocess.run([*command, *files, *names], cwd=folder, check=True, capture_output=True)
    return folder
