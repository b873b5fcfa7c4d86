"""Which protocol a connection speaks, from its first bytes.

Every listener speaks everything; the first byte is nearly always enough:

====================  =========================================================
first byte            protocol
====================  =========================================================
``0x10``              MQTT: CONNECT is the only packet allowed first
``*``                 RESP: an array
``0x01``              binary protocol: its version
``0x00``              queue protocol: high byte of a length below 16 MiB
``0x16``              TLS: a handshake record
a letter              HTTP if a known method and a space follow, else inline RESP
====================  =========================================================
"""

from enum import Enum


class Protocol(Enum):
    """What a connection can turn out to speak. The value is the label in metrics and logs."""

    MQTT = "mqtt"
    HTTP = "http"
    RESP = "resp"
    BINARY = "binary"
    QUEUE = "queue"
    TLS = "tls"
    UNKNOWN = "unknown"


_BY_FIRST_BYTE = {
    0x10: Protocol.MQTT,
    ord("*"): Protocol.RESP,
    0x01: Protocol.BINARY,
    0x00: Protocol.QUEUE,
    0x16: Protocol.TLS,
}
_HTTP_METHODS = tuple(
    f"{method} ".encode()
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT")
)


def detect(data: bytes) -> Protocol | None:
    """The protocol that ``data`` begins; None while it could still be more than one."""
    if not data:
        return None
    protocol = _BY_FIRST_BYTE.get(data[0])
    if protocol is not None:
        return protocol
    if not chr(data[0]).isascii() or not chr(data[0]).isalpha():
        return Protocol.UNKNOWN
    if data.startswith(_HTTP_METHODS):
        return Protocol.HTTP
    if any(method.startswith(data) for method in _HTTP_METHODS):
        return None
    return Protocol.RESP
