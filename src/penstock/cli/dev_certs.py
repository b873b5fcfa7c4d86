"""Certificates to try TLS with: an authority of one's own, and what it signs.

The ``openssl`` program makes them. The broker's libraries cannot: PyNaCl has no P-256 and Python's
``ssl`` makes no certificates. The package ``cryptography`` could, but its size would triple the
base install, while ``openssl`` is on nearly every machine that has TLS at all.

Everything is made in a private temporary directory; files appear in the target only when all of
them exist. Keys are created with mode 0600, never changed to it later.
"""

import ipaddress
import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from ssl import cert_time_to_seconds
from typing import Final

import msgspec

from penstock.errors import PenstockError
from penstock.obs.printable import printable
from penstock.trust.rows import NAME, NAME_FAULT

DAYS: Final = 90
DAYS_MAX: Final = 825  # what Apple's systems accept of a private authority
ALWAYS_NAMED: Final = ("localhost", "127.0.0.1", "::1")
NAMES_MAX: Final = 100
OPENSSL_S_MAX: Final = 60.0

_DNS_NAME = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?", re.ASCII)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SHOWN_BYTES_MAX: Final = 1 << 20

_OPENSSL_CONFIG: Final = """\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = {common_name}
[extensions]
basicConstraints = critical, {constraints}
keyUsage = critical, {usage}
{more}
"""
_AUTHORITY: Final = ("CA:TRUE, pathlen:0", "keyCertSign, cRLSign", "subjectKeyIdentifier = hash")
_SIGNED: Final = ("CA:FALSE", "digitalSignature")


class Certificate(msgspec.Struct, frozen=True):
    """What ``certs show`` tells about a certificate."""

    subject: str
    issuer: str
    names: list[str]
    valid_from: str
    expires: str
    days_left: int
    is_authority: bool
    purposes: list[str]
    serial: str
    sha256: str


class Authority:
    """A certificate authority in a directory: ``ca.crt`` and ``ca.key``."""

    def __init__(self, directory: Path, days: int = DAYS) -> None:
        self._directory = directory
        self._days = str(days)

    def make(self, name: str) -> None:
        """Make the authority itself."""
        config = self._key_and_config("ca", name, _AUTHORITY)
        _openssl(
            *("req", "-x509", "-new", "-sha256", "-days", self._days, "-key", self._path("ca.key")),
            *("-config", config, "-extensions", "extensions", "-out", self._path("ca.crt")),
        )

    def sign(self, file: str, common_name: str, purposes: str, names: Iterable[str] = ()) -> None:
        """Make ``FILE.key`` and ``FILE.crt``."""
        extensions = f"extendedKeyUsage = {purposes}\nauthorityKeyIdentifier = keyid"
        if listed := ", ".join(map(_alternative_name, names)):
            extensions += f"\nsubjectAltName = {listed}"
        config = self._key_and_config(file, common_name, (*_SIGNED, extensions))
        request, certificate = self._path(f"{file}.csr"), self._path(f"{file}.crt")
        key = self._path(f"{file}.key")
        _openssl("req", "-new", "-sha256", "-key", key, "-config", config, "-out", request)
        _openssl(
            *("x509", "-req", "-sha256", "-days", self._days, "-in", request, "-out", certificate),
            *("-CA", self._path("ca.crt"), "-CAkey", self._path("ca.key")),
            *("-set_serial", f"0x{secrets.randbits(158) | 1 << 158:x}"),
            *("-extfile", config, "-extensions", "extensions"),
        )

    def _key_and_config(self, file: str, common_name: str, extensions: tuple[str, ...]) -> str:
        constraints, usage, more = extensions
        curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
        _openssl("genpkey", *curve, "-out", self._path(f"{file}.key"))
        config = self._directory / f"{file}.cnf"
        text = _OPENSSL_CONFIG.format(
            common_name=common_name, constraints=constraints, usage=usage, more=more
        )
        config.write_text(text, encoding="utf-8")
        return str(config)

    def _path(self, name: str) -> str:
        return str(self._directory / name)


def make_certificates(
    directory: Path,
    hosts: Iterable[str] = (),
    clients: Iterable[str] = ("client",),
    *,
    days: int = DAYS,
    force: bool = False,
) -> list[Path]:
    """Make an authority, a server certificate for ``hosts`` and this machine, and clients'."""
    names = [*dict.fromkeys([*ALWAYS_NAMED, *hosts])]
    for name in names:
        _check_host(name)
    if len(names) > NAMES_MAX:
        raise PenstockError(f"a certificate for {len(names)} names", f"at most {NAMES_MAX}")
    clients = _checked_clients(clients)
    files = _file_names("ca", "server", *clients)
    _check_free(directory, files, force=force)
    with tempfile.TemporaryDirectory(prefix="penstock-certs-") as temporary:  # mode 0700
        authority = Authority(Path(temporary), days)
        authority.make(f"Penstock development {secrets.token_hex(4)}")
        # A node of a cluster is a client of its peers: its certificate serves for both.
        authority.sign("server", names[0], "serverAuth, clientAuth", names)
        for client in clients:
            authority.sign(client, client, "clientAuth")
        return _hand_over(Path(temporary), directory, files)


def make_clients(
    directory: Path, clients: Iterable[str], *, days: int = DAYS, force: bool = False
) -> list[Path]:
    """Make certificates of more clients, signed by the authority that is in ``directory``."""
    clients = _checked_clients(clients)
    files = _file_names(*clients)
    _check_free(directory, files, force=force)
    with tempfile.TemporaryDirectory(prefix="penstock-certs-") as temporary:
        for name in ("ca.crt", "ca.key"):
            _write_file(Path(temporary) / name, _read(directory / name))
        for client in clients:
            Authority(Path(temporary), days).sign(client, client, "clientAuth")
        return _hand_over(Path(temporary), directory, files)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        what = f"cannot read {path}: {error.strerror}"
        raise PenstockError(what, "penstock certs dev DIR makes an authority") from error


# ── Names ─────────────────────────────────────────────────────────────────────────────────────


def _check_host(host: str) -> None:
    if not _is_address(host) and not _DNS_NAME.fullmatch(host):
        advice = "write names outside ASCII as xn--…, and no port"
        raise PenstockError(f"{host!r} is no host name or IP address", advice)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # no scope of an IPv6 address


def _alternative_name(host: str) -> str:
    return f"{'IP' if _is_address(host) else 'DNS'}:{host}"


def _checked_clients(clients: Iterable[str]) -> list[str]:
    names = [*dict.fromkeys(clients)]
    for name in names:
        if not NAME.fullmatch(name) or name in {"ca", "server"}:
            what = f"{name!r} cannot be the name of a client certificate"
            raise PenstockError(what, f"it is a user's name: {NAME_FAULT}; not ca or server")
    return names


# ── Files ─────────────────────────────────────────────────────────────────────────────────────


def _file_names(*stems: str) -> list[str]:
    return [f"{stem}.{kind}" for stem in stems for kind in ("crt", "key")]


def _check_free(directory: Path, files: Iterable[str], *, force: bool) -> None:
    taken = [directory / name for name in files if os.path.lexists(directory / name)]
    if taken and not force:
        advice = "choose another directory, or overwrite with --force"
        raise PenstockError(f"{taken[0]} exists", advice)


def _hand_over(made: Path, directory: Path, files: Iterable[str]) -> list[Path]:
    paths = [directory / name for name in files]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.unlink(missing_ok=True)  # overwriting would keep its mode
            _write_file(path, (made / path.name).read_bytes())
    except OSError as error:
        raise PenstockError(f"cannot write {error.filename}: {error.strerror}") from error
    return paths


def _write_file(path: Path, content: bytes) -> None:
    mode = 0o600 if path.suffix == ".key" else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


# ── Showing ───────────────────────────────────────────────────────────────────────────────────


def read_certificates(path: Path, now_s: float) -> list[Certificate]:
    """The certificates of a PEM file; keys in it are left alone."""
    try:
        with path.open("rb") as file:
            content = file.read(_SHOWN_BYTES_MAX)
    except OSError as error:
        raise PenstockError(f"cannot read {path}: {error.strerror}") from error
    blocks = _PEM.findall(content)
    if not blocks:
        has_key = b"PRIVATE KEY-----" in content
        what = f"{path} has no certificate{', but a private key' if has_key else ''}"
        raise PenstockError(what, "give a file that begins with -----BEGIN CERTIFICATE-----")
    return [_described(block, now_s) for block in blocks]


def _described(pem: bytes, now_s: float) -> Certificate:
    extensions = "subjectAltName,basicConstraints,extendedKeyUsage"
    shown = ("-subject", "-issuer", "-dates", "-serial", "-fingerprint", "-sha256")
    text = _openssl("x509", "-noout", "-nameopt", "RFC2253", *shown, "-ext", extensions, given=pem)
    fields, listed = _parsed(text)
    start, end = (cert_time_to_seconds(fields[key]) for key in ("notBefore", "notAfter"))
    names = listed.get("Subject Alternative Name", "").split(", ")
    purposes = listed.get("Extended Key Usage", "")
    return Certificate(
        subject=fields["subject"],
        issuer=fields["issuer"],
        names=[_plain_name(name) for name in names if name],
        valid_from=_time(start),
        expires=_time(end),
        days_left=int((end - now_s) // 86_400),
        is_authority="CA:TRUE" in listed.get("Basic Constraints", ""),
        purposes=[purpose for purpose in purposes.split(", ") if purpose],
        serial=fields["serial"].lower(),
        sha256=next(v for k, v in fields.items() if k.lower() == "sha256 fingerprint"),
    )


def _parsed(text: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Read ``key=value`` lines, and extensions, whose value is the line after their name."""
    fields, extensions, heading = dict[str, str](), dict[str, str](), ""
    for line in text.splitlines():
        if line.startswith(" "):
            extensions[heading] = line.strip()
        elif line.startswith("X509v3 "):
            heading = line.removeprefix("X509v3 ").partition(":")[0]
        else:
            key, _, value = line.partition("=")
            fields[key] = value.strip()
    return fields, extensions


def _plain_name(shown: str) -> str:
    kind, _, name = shown.partition(":")
    return ipaddress.ip_address(name).compressed if kind == "IP Address" else name


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _openssl(*arguments: str, given: bytes = b"") -> str:
    """Run ``openssl``. Keys are passed by file name, so ``ps`` shows none."""
    command = ["openssl", *arguments]
    environment = os.environ | {"LC_ALL": "C"}
    try:
        ran = subprocess.run(  # noqa: S603 - a fixed program, names checked above
            command, input=given, capture_output=True, timeout=OPENSSL_S_MAX,
            env=environment, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        what = "the program openssl is not installed"
        raise PenstockError(what, "install it, as with apt install openssl") from None
    except subprocess.TimeoutExpired:
        raise PenstockError(f"openssl {arguments[0]} did not end") from None
    if ran.returncode:
        reason = (ran.stderr.decode(errors="replace").strip().splitlines() or ["no reason"])[-1]
        raise PenstockError(f"openssl {arguments[0]} failed: {printable(reason)}")
    return ran.stdout.decode(errors="replace")
