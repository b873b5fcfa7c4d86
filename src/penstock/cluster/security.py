"""How nodes authenticate: by a shared secret, certificates, both, or being on one machine.

With certificates every connection between nodes is mutual TLS, and both certificates are signed by
the cluster's own authority (no public one is trusted). The certificate of node 3 has the name
``node-3``, as a DNS name among its alternative names or as its common name. Host names do not
matter: a node may move.

Without a secret and without certificates anybody who reaches the port could write into the journal.
So nodes then use loopback addresses only.
"""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict, cast

import msgspec

from penstock.cluster.faults import PeerFault
from penstock.config.address import Address
from penstock.errors import ConfigError
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

SECRET_BYTES_MIN = 16  # a shorter secret could be brute-forced


class Certificate(TypedDict, total=False):
    """What the ``ssl`` module tells of a certificate, as far as it is used here."""

    subject: tuple[tuple[tuple[str, str], ...], ...]
    subjectAltName: tuple[tuple[str, str], ...]


class TlsFiles(msgspec.Struct, frozen=True):
    """The node's certificate and key, and the authority that signed those of all nodes (PEM)."""

    certificate: Path
    key: Path
    authority: Path


class PeerSecurity:
    """The credentials of this node, and the checks of others'. Raises ConfigError."""

    def __init__(
        self,
        secret: bytes = b"",
        tls: TlsFiles | None = None,
        other_secrets: tuple[bytes, ...] = (),
    ) -> None:
        """``other_secrets`` are accepted of other nodes, while the secret is rotated."""
        for one in (secret, *other_secrets):
            if one and len(one) < SECRET_BYTES_MIN:
                raise ConfigError(
                    f"the cluster's secret has {len(one)} bytes, fewer than {SECRET_BYTES_MIN}",
                    "Make one with `openssl rand -hex 32`, and give it to all nodes.",
                )
        self.secret = secret
        self.other_secrets = other_secrets
        self.server_tls = _context(tls, ssl.PROTOCOL_TLS_SERVER) if tls else None
        self.client_tls = _context(tls, ssl.PROTOCOL_TLS_CLIENT) if tls else None
        self.certificate = tls.certificate.read_bytes() if tls else b""

    @property
    def is_open(self) -> bool:
        return not self.secret and self.server_tls is None

    def check(self, address: Address) -> None:
        if self.is_open and not address.is_loopback:
            raise ConfigError(
                f"nodes cannot use {address} without a secret: anybody who reaches it could write",
                "Set cluster.secret_file (the same secret on all nodes), or cluster.tls_cert,"
                " tls_key and tls_ca. Only loopback addresses, such as 127.0.0.1, need neither.",
            )

    def replace(self, new: "PeerSecurity", node: NodeId) -> list[str]:
        """Use the credentials of ``new`` for connections from now on; return what changed.

        Raises ConfigError, and changes nothing, if they would not do for node ``node``.
        """
        self.check_replacement(new, node)
        changes = ["the cluster's secret"] if self.secrets != new.secrets else []
        if self.certificate != new.certificate:
            changes.append("the certificate for other nodes")
        self.secret, self.other_secrets = new.secret, new.other_secrets
        self.server_tls, self.client_tls = new.server_tls, new.client_tls
        self.certificate = new.certificate
        return changes

    def check_replacement(self, new: "PeerSecurity", node: NodeId) -> None:
        """Raises ConfigError if ``replace`` would."""
        if (self.server_tls is None) != (new.server_tls is None) or new.is_open != self.is_open:
            raise ConfigError(
                "nodes cannot change while they run whether they need a secret or certificates",
                "Restart them one by one.",
            )
        new.check_own(node)

    @property
    def secrets(self) -> tuple[bytes, ...]:
        return self.secret, *self.other_secrets

    def check_own(self, node: NodeId) -> None:
        """Meet oneself in memory: other nodes check the same. Raises ConfigError."""
        if self.server_tls is None or self.client_tls is None:
            return
        try:
            shown = _met_in_memory(self.server_tls, self.client_tls)
            self.check_certificate(node, shown)
        except (ssl.SSLError, PeerFault) as error:
            raise ConfigError(
                f"the certificate for other nodes would be refused by them: {error}",
                f"It must be valid, for the name node-{node}, and signed by cluster.tls_ca.",
            ) from error

    def check_certificate(self, node: NodeId, certificate: Certificate | None) -> None:
        if self.server_tls is None:
            return
        names = list(names_of(certificate or {}))
        if f"node-{node}" not in names:
            raise PeerFault(
                PeerReason.WRONG_CERTIFICATE,
                f"node {node} shows a certificate for {', '.join(names) or 'nobody'}",
                f"It needs one with the name node-{node}.",
            )

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        return f"PeerSecurity(secret={bool(self.secret)}, tls={self.server_tls is not None})"


def names_of(certificate: Certificate) -> Iterator[str]:
    yield from (name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")
    for part in certificate.get("subject", ()):
        yield from (value for kind, value in part if kind == "commonName")


def _context(files: TlsFiles, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # ``check_certificate`` checks the name, which is the node's
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.authority)
        # An empty pass phrase, or OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificates for nodes cannot be used: {error}",
            "Check cluster.tls_cert, tls_key and tls_ca: files in PEM form, readable by this user,"
            " the key without a pass phrase and belonging to the certificate.",
        ) from error
    return context


def _met_in_memory(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> Certificate:
    """Do a handshake of a node with itself; return the certificate that both sides showed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_tls.wrap_bio(to_server, to_client, server_side=True)
    client = client_tls.wrap_bio(to_client, to_server)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    shown = server.getpeercert()
    assert shown is not None
    return cast("Certificate", shown)
