"""How nodes authenticate: by a shared secret, certificates, both, or being on one machine.

With certificates every connection between nodes is mutual TLS, and both certificates are signed by
the cluster's own authority (no public one is trusted). The certificate of node 3 has the name
``node-3``, as a DNS name among its alternative names or as its common name. Host names do not
matter: a node may move.

Without a secret and without certificates anybody who reaches the port could write into the journal.
So nodes then use loopback addresses only.
"""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

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

    def __init__(self, secret: bytes = b"", tls: TlsFiles | None = None) -> None:
        if secret and len(secret) < SECRET_BYTES_MIN:
            raise ConfigError(
                f"the cluster's secret has {len(secret)} bytes, fewer than {SECRET_BYTES_MIN}",
                "Make one with `openssl rand -hex 32`, and give it to all nodes.",
            )
        self.secret = secret
        self.server_tls = _context(tls, ssl.PROTOCOL_TLS_SERVER) if tls else None
        self.client_tls = _context(tls, ssl.PROTOCOL_TLS_CLIENT) if tls else None

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
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificates for nodes cannot be used: {error}",
            "Check cluster.tls_cert, tls_key and tls_ca: files in PEM form, readable by this user,"
            " the key without a pass phrase and belonging to the certificate.",
        ) from error
    return context
