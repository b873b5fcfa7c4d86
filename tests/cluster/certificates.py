"""Certificates for tests, made by the ``openssl`` command; tests without it are skipped."""

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.cluster.security import TlsFiles

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl command")


class Authority:
    """Signs certificates. ``alternative``: the name goes where browsers look for it."""

    def __init__(self, folder: Path, name: str = "bench") -> None:
        self.folder = folder
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        _openssl(
            "req", "-x509", *_NEW_KEY, "-keyout", self.key, "-out", self.certificate,
            "-subj", f"/CN={name}", "-days", "2",
        )  # fmt: skip

    def files(self, name: str, *, alternative: bool = False) -> TlsFiles:
        base = self.folder / f"{self.certificate.stem}-{name}-{alternative}"
        key, request, certificate = (base.with_suffix(s) for s in (".key", ".csr", ".pem"))
        names = ("-addext", f"subjectAltName=DNS:{name}") if alternative else ()
        subject = "/O=bench" if alternative else f"/CN={name}"
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", subject, *names)
        _openssl(
            "x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key,
            "-out", certificate, "-days", "2", "-copy_extensions", "copy",
        )  # fmt: skip
        return TlsFiles(certificate, key, self.certificate)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
