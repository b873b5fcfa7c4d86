"""The broker's certificate: loading, checking and replacing it while connections go on.

``prepare`` reads all files into new contexts and tries them: the key belongs to the certificate,
nothing has expired, the names cover the advertised address, and a handshake in memory succeeds.
Only then ``apply`` puts them in force, by changing one attribute. Whatever fails before, the old
contexts stay. Connections that exist keep what they were made with.

TLS 1.2 is the least, with forward secrecy and authenticated encryption only. There are no
renegotiation, compression or early data. Where clients show certificates, there are no session
tickets: a ticket would outlive a revocation. TLS 1.2 can still resume a session by its number, but
only within one context, and a new revocation list is a new context.
"""

import re
import ssl
import stat
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TypedDict

import msgspec

from penstock.config.listeners import TlsMode
from penstock.config.schema import Tls
from penstock.errors import ConfigError
from penstock.limits import MIB
from penstock.model.user_name import USER_NAME
from penstock.net.x509 import (
    CertificateFacts,
    RevocationList,
    pem_blocks,
    read_certificate,
    read_revocation_list,
)
from penstock.obs.log import get_logger

ALPN = ("mqtt", "http/1.1")  # the protocols of ours that have registered names
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; all of 1.3 are as good
FILE_BYTES_MAX = 64 * MIB  # of one file; public revocation lists have some 10 MiB
WARN_DAYS = (30, 7, 1)  # before a certificate or revocation list expires
DAY_S = 24 * 3600
HANDSHAKE_ROUNDS = 8  # of a handshake in memory; TLS 1.3 needs two

_NODE_NAME = re.compile(r"node-[0-9]+")  # certificates of nodes; never a user
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_log = get_logger("tls")


class PeerCertificate(TypedDict, total=False):
    """What ``ssl`` tells of a client's verified certificate, as far as it is used here."""

    subject: tuple[tuple[tuple[str, str], ...], ...]
    subjectAltName: tuple[tuple[str, str], ...]
    notAfter: str


class LoadedTls(msgspec.Struct, frozen=True):
    """Everything that was read from the files, ready to be used."""

    settings: Tls
    contexts: Mapping[TlsMode, ssl.SSLContext]  # by whether clients show certificates
    certificate: CertificateFacts
    lists: tuple[RevocationList, ...] = ()
    digests: Mapping[str, str] = {}  # of the contents of further files, by option

    @property
    def lists_expire(self) -> int:
        return min((one.next_update for one in self.lists if one.next_update), default=0)


class Certificates:
    """The contexts in force, and their replacement. Raises ConfigError."""

    def __init__(
        self,
        settings: Tls,
        host: str = "",
        *,
        wall_ms: Callable[[], int],
    ) -> None:
        """``host`` is what clients connect to, if it is known: the certificate should be for it."""
        self._host = host
        self._wall_ms = wall_ms
        self._warned_days: dict[str, int] = {}
        self.reloads = {"applied": 0, "unchanged": 0, "refused": 0}
        self.loaded = _load(settings)
        for fault in self._faults(self.loaded):  # old, but all there is: loopback clients go on
            _log.error("certificate_unfit", fault=fault)

    def context(self, client_certs: TlsMode) -> ssl.SSLContext:
        return self.loaded.contexts[client_certs]

    @property
    def client_certs(self) -> TlsMode:
        """Whether clients show certificates, unless a listener says otherwise."""
        settings = self.loaded.settings
        return settings.client_certs if settings.client_ca else "off"

    def expires_s(self) -> float:
        return self.loaded.certificate.not_after - self._now()

    def _now(self) -> float:
        return self._wall_ms() / 1000

    # ── replacement ───────────────────────────────────────────────────────────────────────────

    def reload(self, settings: Tls | None = None) -> list[str]:
        """Replace certificate, key, authorities and lists; return what changed.

        Raises ConfigError, which names file and reason, and changes nothing then. It reads files
        and computes for some milliseconds.
        """
        return self.apply(self.prepare(settings))

    def prepare(self, settings: Tls | None = None) -> LoadedTls:
        """Load and check, in any thread. Raises ConfigError."""
        try:
            loaded = _load(settings or self.loaded.settings)
            self._check(loaded)
        except ConfigError as error:
            self.reloads["refused"] += 1
            _log.error("certificate_refused", why=error.message, advice="the old one stays in use")
            raise
        return loaded

    def apply(self, loaded: LoadedTls) -> list[str]:
        """Put in force what ``prepare`` returned; new connections use it from now on."""
        changes = list(_changes(self.loaded, loaded))
        self.loaded = loaded
        self._warned_days.clear()
        self.reloads["applied" if changes else "unchanged"] += 1
        if changes:
            _log.info("certificate_replaced", changes="; ".join(changes))
        return changes

    def _check(self, loaded: LoadedTls) -> None:
        for fault in self._faults(loaded):
            raise ConfigError(fault, "Replace the file, then reload again.")

    def _faults(self, loaded: LoadedTls) -> Iterator[str]:
        now, facts, settings = self._now(), loaded.certificate, loaded.settings
        if facts.not_after <= now:
            yield f"tls.cert: {settings.cert} has expired on {day(facts.not_after)}"
        if facts.not_before > now:
            yield f"tls.cert: {settings.cert} is not valid before {day(facts.not_before)}"
        if self._host and not facts.covers(self._host):
            yield f"tls.cert: {settings.cert} is for {facts.name}, not for {self._host}"
        for one in loaded.lists:
            if one.next_update and one.next_update <= now:
                yield f"tls.crl: {settings.crl} is out of date since {day(one.next_update)}"

    def turn(self) -> None:
        """Warn of what expires soon, once per threshold."""
        self._warn("certificate_expires", self.loaded.certificate.not_after)
        if self.loaded.lists_expire:
            self._warn("revocation_list_expires", self.loaded.lists_expire)

    def _warn(self, event: str, expires: int) -> None:
        days = (expires - self._now()) / DAY_S
        due = min((limit for limit in WARN_DAYS if days <= limit), default=0)
        if due and due < self._warned_days.get(event, WARN_DAYS[0] + 1):
            self._warned_days[event] = due
            _log.warning(event, date=day(expires), days=round(days, 1))

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    def identity(self, certificate: PeerCertificate) -> tuple[str, int]:
        """The user that a verified certificate names, if any, and when it expires (Unix ms)."""
        settings = self.loaded.settings
        names = set(_names(certificate, settings))
        name = names.pop() if len(names) == 1 else ""  # of several, which one would be meant?
        is_user = USER_NAME.fullmatch(name) and not _NODE_NAME.fullmatch(name)
        ends_s = ssl.cert_time_to_seconds(certificate["notAfter"])
        return name if is_user else "", int(ends_s * 1000)


def day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _names(certificate: PeerCertificate, settings: Tls) -> Iterator[str]:
    if settings.identity == "cn":
        for part in certificate.get("subject", ()):
            yield from (value for kind, value in part if kind == "commonName")
        return
    wanted, prefix = ("DNS", "") if settings.identity == "dns" else ("URI", settings.uri_prefix)
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == wanted and value.startswith(prefix):
            yield value.removeprefix(prefix)


def _changes(old: LoadedTls, new: LoadedTls) -> Iterator[str]:
    before, after = old.certificate, new.certificate
    if before.fingerprint != after.fingerprint:
        yield (
            f"certificate for {after.name}, valid until {day(after.not_after)} (before:"
            f" {before.name}, {day(before.not_after)})"
        )
    if old.digests.get("client_ca") != new.digests.get("client_ca"):
        yield "tls.client_ca: other authorities"
    if old.digests.get("crl") != new.digests.get("crl"):
        count = f"{len(new.lists)} revocation list{'' if len(new.lists) == 1 else 's'}"
        until = f", next update {day(new.lists_expire)}" if new.lists_expire else ""
        yield f"tls.crl: {count}{until}"
    for name in ("client_certs", "identity", "uri_prefix", "min_version"):
        if getattr(old.settings, name) != getattr(new.settings, name):
            yield f"tls.{name}: {getattr(new.settings, name)}"


# ── contexts ──────────────────────────────────────────────────────────────────────────────────


def _load(settings: Tls) -> LoadedTls:
    check_key_mode("tls.key", settings.key)
    lists = _revocation_lists(settings) if settings.crl else ()
    modes: tuple[TlsMode, ...] = ("off", "optional", "required") if settings.client_ca else ("off",)
    contexts = {mode: _context(settings, mode) for mode in modes}
    der = _leaf(contexts["off"], settings)
    files = {name: getattr(settings, name) for name in ("client_ca", "crl")}
    digests = {
        name: sha256(_read(f"tls.{name}", file)).hexdigest() for name, file in files.items() if file
    }
    return LoadedTls(settings, contexts, read_certificate(der), lists, digests)


def check_key_mode(option: str, file: str) -> None:
    """Raises ConfigError if everybody on this machine can read a private key."""
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        raise _unreadable(option, file, error) from error
    if mode & stat.S_IROTH:
        what = f"{option}: {file} is readable by all users of this machine"
        raise ConfigError(what, "chmod 600 it")


def _context(settings: Tls, client_certs: TlsMode) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[settings.min_version]
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.num_tickets = 1  # a client needs one; OpenSSL would make two of 25 us each
    context.set_alpn_protocols(list(ALPN))
    try:
        # An empty pass phrase, or OpenSSL would ask for one on the terminal and block the broker.
        context.load_cert_chain(settings.cert, settings.key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise _pair_fault(settings, error) from error
    if client_certs != "off":
        _ask_for_certificates(context, settings, is_required=client_certs == "required")
    return context


def _pair_fault(settings: Tls, error: OSError) -> ConfigError:
    for option in ("cert", "key"):
        file = getattr(settings, option)
        try:
            _read(f"tls.{option}", file)
        except ConfigError as unreadable:
            return unreadable
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return ConfigError(
            f"tls.key: {settings.key} does not belong to the certificate {settings.cert}",
            "Use the key that the certificate was made with.",
        )
    return ConfigError(
        f"tls.cert, tls.key: {settings.cert} and {settings.key} cannot be used: {reason or error}",
        "Both must be PEM files, the certificate of this broker first, the key without a pass"
        " phrase (openssl pkey -in KEY -out NEW).",
    )


def _ask_for_certificates(context: ssl.SSLContext, settings: Tls, *, is_required: bool) -> None:
    context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    _trust(context, "tls.client_ca", settings.client_ca)
    if settings.crl:
        _trust(context, "tls.crl", settings.crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _trust(context: ssl.SSLContext, option: str, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        _read(option, file)
        raise ConfigError(
            f"{option}: {file} cannot be used: {getattr(error, 'reason', None) or error}",
            "It must be a PEM file.",
        ) from error


def _revocation_lists(settings: Tls) -> tuple[RevocationList, ...]:
    try:
        blocks = pem_blocks(_read("tls.crl", settings.crl), b"X509 CRL")
        lists = tuple(map(read_revocation_list, blocks))
    except ValueError as error:
        raise ConfigError(f"tls.crl: {settings.crl}: {error}", "Make it anew.") from error
    if not lists:
        raise ConfigError(
            f"tls.crl: {settings.crl} has no revocation list", "It must be a PEM file (X509 CRL)."
        )
    return lists


def _read(option: str, file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(FILE_BYTES_MAX)
    except OSError as error:
        raise _unreadable(option, file, error) from error


def _unreadable(option: str, file: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"{option}: {file} cannot be read: {error.strerror or error}",
        "Check that the file is there, and that the broker's user may read it.",
    )


def _leaf(context: ssl.SSLContext, settings: Tls) -> bytes:
    """Do a handshake in memory, as a client would; return the certificate it was shown (DER)."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # an expired certificate is reported as such, by dates
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(HANDSHAKE_ROUNDS):
            if all([_is_done(client), _is_done(server)]):
                break
    except ssl.SSLError as error:
        raise ConfigError(
            f"tls.cert: a handshake with {settings.cert} fails: {error.reason or error}",
            "Make a certificate with a P-256 or RSA key of at least 2048 bits.",
        ) from error
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return der


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
