"""Which connections are encrypted, with which certificate, and who the clients are by theirs."""

import asyncio
from typing import cast

from msgspec.structs import replace

from penstock.config.listeners import ListenerSettings
from penstock.net.certificates import Certificates, PeerCertificate
from penstock.net.detect import Protocol
from penstock.net.handshakes import HandshakeThreads
from penstock.net.origin import Origin, shared
from penstock.net.tls import TlsHandshake, TlsOwner, TlsTransport
from penstock.obs.counters import Counters

_BY_ALPN = {"mqtt": Protocol.MQTT, "http/1.1": Protocol.HTTP}

_BODY = (
    b'{"error":"this address accepts encrypted connections only",'
    b'"advice":"use https://; the penstock command: --tls, --ca-file"}\n'
)
CLEAR_TEXT_ANSWERS = {
    Protocol.HTTP: (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_BODY), _BODY)
    ),
    Protocol.RESP: b"-ERR this address accepts encrypted connections only: use TLS\r\n",
}
"""What clients of some protocols are told where TLS is required; the others are closed."""


class TlsEntrance:
    """Begins handshakes, and looks at what came of them."""

    def __init__(
        self, certificates: Certificates, loop: asyncio.AbstractEventLoop, counters: Counters
    ) -> None:
        self.certificates = certificates
        self.threads = HandshakeThreads(loop)
        self._counters = counters

    def begin(
        self, raw: asyncio.Transport, data: bytes, settings: ListenerSettings, owner: TlsOwner
    ) -> None:
        """Answer a ClientHello, of which ``data`` was read; ``owner`` hears of the outcome."""
        certificates = self.certificates
        mode = settings.client_certs_mode(certificates.client_certs)
        TlsHandshake(raw, certificates.context(mode), self.threads, owner).data_received(data)

    def origin(self, origin: Origin, transport: TlsTransport) -> Origin:
        """The origin of a connection after its handshake."""
        ssl_object = transport.ssl_object
        version = ssl_object.version() or ""
        totals = self._counters.tls_handshakes_total
        totals[version] = totals.get(version, 0) + 1
        user, expires_ms = "", 0
        if certificate := ssl_object.getpeercert():
            user, expires_ms = self.certificates.identity(cast("PeerCertificate", certificate))
        approach = replace(
            origin.approach, is_encrypted=True, certificate=user, certificate_expires_ms=expires_ms
        )
        return replace(origin, approach=shared(approach))

    def close(self) -> None:
        self.threads.close()


def alpn_fault(transport: TlsTransport, protocol: Protocol) -> str:
    """What is wrong if a client agreed on one protocol in the handshake and speaks another.

    Else somebody could pass on a client's bytes, encrypted for one service, to another (ALPACA).
    """
    name = transport.ssl_object.selected_alpn_protocol()
    if name is None or _BY_ALPN[name] is protocol:
        return ""
    return f"agreed on {name} by ALPN, speaks {protocol.value}"
