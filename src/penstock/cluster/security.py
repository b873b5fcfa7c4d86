"""How nodes know each other: a shared secret, certificates, both, or being on one machine.

With certificates every connection between nodes is TLS, both sides show theirs, and both are signed
by the cluster's own authority (no public one is trusted). The certificate of node 3 has the name
``node-3``, as a DNS name among its alternative names or as its common name. Host names mean nothing
here: a node may move, and what matters is which node it is.

Without a secret and without certificates whoever reaches the port could write into the journal. So
nodes then speak to addresses of this machine only.
"""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.cluster.faults import PeerFault
from penstock.config.address import Address
from penstock.errors import ConfigError
from penstock.obs.reasons import PeerReason
from penstock.raft.types import NodeId

SECRET_BYTES_MIN = 16
"""A shorter secret could be guessed by trying."""


class TlsFiles(msgspec.Struct, frozen=True):
    """The node's certificate and key, and the authority that signed those of all nodes (PEM)."""

    certificate: Path
    key: Path
    authority: Path


class PeerSecurity:
    """What this node proves, and what it asks others to prove. ConfigError says what is wrong."""

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
        """Whether nothing needs to be proven."""
        return not self.secret and self.server_tls is None

    def check(self, address: Address) -> None:
        """Refuse an address beyond this machine if nothing needs to be proven."""
        if self.is_open and not address.is_loopback:
            raise ConfigError(
                f"nodes can not meet on {address} without a secret: whoever reaches it could write",
                "Set cluster.secret_file (the same secret on all nodes), or cluster.tls_cert,"
                " tls_key and tls_ca. Only addresses of this machine, as 127.0.0.1, need neither.",
            )

    def check_certificate(self, node: NodeId, certificate: Mapping[str, Any] | None) -> None:
        """Refuse a node whose certificate has another name; raises PeerFault."""
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


def names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The DNS names and common names of a certificate as the ``ssl`` module shows it."""
    yield from (name for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")
    for part in certificate.get("subject", ()):
        yield from (value for kind, value in part if kind == "commonName")


def _context(files: TlsFiles, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the name is the node's, and ``check_certificate`` looks at it
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.authority)
        context.load_cert_chain(files.certificate, files.key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the certificates for nodes can not be used: {error}",
            "Check cluster.tls_cert, tls_key and tls_ca: files in PEM form, readable by this user,"
            " the key without a pass phrase and belonging to the certificate.",
        ) from error
    return context
