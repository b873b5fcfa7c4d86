"""WebSocket (RFC 6455) as a pipe for the bytes of another protocol, MQTT: both ends.

Bytes in, payload and control frames out: no socket, no clock, no random mask (a client is given
one). Messages are not assembled: where one ends means nothing to MQTT. Extensions, such as
compression, are not spoken.
"""

from penstock.wire.websocket.frames import (
    CloseCode,
    binary_frame,
    close_frame,
    masked_frame,
    ping_frame,
    pong_frame,
)
from penstock.wire.websocket.handshake import (
    HandshakeFault,
    accept_key,
    check_handshake_response,
    handshake_request,
)
from penstock.wire.websocket.machine import (
    Closed,
    Fault,
    Ping,
    WebSocketClientMachine,
    WebSocketServerMachine,
)

__all__ = [
    "CloseCode",
    "Closed",
    "Fault",
    "HandshakeFault",
    "Ping",
    "WebSocketClientMachine",
    "WebSocketServerMachine",
    "accept_key",
    "binary_frame",
    "check_handshake_response",
    "close_frame",
    "handshake_request",
    "masked_frame",
    "ping_frame",
    "pong_frame",
]
