"""An authority for tests, made by the ``openssl`` command: signs, revokes, dates as one likes."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["Authority", "Files", "client_context", "needs_openssl"]

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl command")

BEFORE_ALL_CLOCKS = "20200101000000Z"  # the virtual clock of a test stands in 2023
AFTER_ALL_CLOCKS = "20491231235959Z"
_KEY = {
    "ec": ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "rsa": ("-newkey", "rsa:2048"),
}
_CONFIG = """
[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
email_in_dn = no
x509_extensions = signed
[signed]
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[any]
commonName = optional
organizationName = optional
"""


class Files(NamedTuple):
    """A certificate and its key."""

    cert: str
    key: str


class Authority:
    """Signs certificates, of which it keeps a database."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.cert = str(folder / "ca.crt")
        self._key = str(folder / "ca.key")
        self._config = folder / "ca.conf"
        self._config.write_text(_CONFIG.format(folder=folder))
        (folder / "index").touch()
        self._count = 0
        _openssl(
            "req", "-x509", *_KEY["ec"], "-nodes", "-keyout", self._key, "-out", self.cert,
            "-subj", f"/CN={name}", "-days", "3650",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def sign(
        self,
        common_name: str,
        names: str = "",
        *,
        key: str = "ec",
        start: str = BEFORE_ALL_CLOCKS,
        end: str = AFTER_ALL_CLOCKS,
    ) -> Files:
        """``names`` as in "DNS:localhost,IP:127.0.0.1"."""
        self._count += 1
        base = self.folder / str(self._count)
        files = Files(f"{base}.crt", f"{base}.key")
        extensions = ("-addext", f"subjectAltName={names}") if names else ()
        subject = f"/CN={common_name}" if common_name else "/O=nobody"
        _openssl(
            "req", *_KEY[key], "-nodes", "-keyout", files.key, "-out", f"{base}.csr",
            "-subj", subject, *extensions,
        )  # fmt: skip
        Path(files.key).chmod(0o600)
        self._ca(
            "-batch", "-notext", "-in", f"{base}.csr", "-out", files.cert,
            "-startdate", start, "-enddate", end,
        )  # fmt: skip
        return files

    def server(self, **options: str) -> Files:
        return self.sign("localhost", "DNS:localhost,IP:127.0.0.1", **options)

    def revoke(self, files: Files) -> None:
        self._ca("-revoke", files.cert)

    def revocation_list(self, name: str = "list.pem", *, end: str = AFTER_ALL_CLOCKS) -> str:
        path = str(self.folder / name)
        self._ca("-gencrl", "-out", path, "-crl_lastupdate", BEFORE_ALL_CLOCKS,
                 "-crl_nextupdate", end)  # fmt: skip
        return path

    def _ca(self, *arguments: str) -> None:
        own = ("-config", str(self._config), "-cert", self.cert, "-keyfile", self._key)
        _openssl("ca", *own, *arguments)


def client_context(authority: Authority, own: Files | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.cert)
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], check=False, capture_output=True)
    assert not done.returncode, done.stderr.decode()
