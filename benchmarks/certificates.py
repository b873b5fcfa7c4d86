"""The certificate that brokers are measured with: P-256, self-signed, made once by ``openssl``."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

__all__ = ["CERT", "KEY", "files", "with_files"]

CERT, KEY = "TLS_CERT", "TLS_KEY"
"""Placeholders in settings for the two files."""

BUILD = Path(__file__).parent / "build"


def files() -> Mapping[str, str]:
    """Return the path of each file, by its placeholder."""
    made = {CERT: str(BUILD / "tls.crt"), KEY: str(BUILD / "tls.key")}
    if not Path(made[CERT]).exists():
        BUILD.mkdir(exist_ok=True)
        options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650"
        names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
        command = ["openssl", *options.split(), *names, "-keyout", made[KEY], "-out", made[CERT]]
        subprocess.run(command, check=True, capture_output=True)
        Path(made[KEY]).chmod(0o600)
    return made


def with_files(value: str) -> str:
    """Return the value of a setting, with the path in place of a placeholder."""
    return files()[value] if value in (CERT, KEY) else value
