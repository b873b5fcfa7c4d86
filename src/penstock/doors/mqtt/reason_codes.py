"""Why a connection ends, as the packets of MQTT 5 say it: one table.

The log, the metrics and the documentation know a ``DisconnectReason``; a client knows a reason
code. CONNACK and DISCONNECT have different codes, so each reason has one for both. Where a packet
has no code for it, it is the nearest that the standard allows there. None: nobody is left to be
told, or nothing that was said could be understood.

A publish with QoS 1 or 2 that is refused is answered with a code, too, and the connection stays. If
there is none, the connection ends, as it does in 3.1.1, which cannot refuse a message.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.obs.reasons import DisconnectReason as Why
from penstock.wire.mqtt.reason_codes import ReasonCode as Code


class Codes(NamedTuple):
    """What a client is told before its connection ends."""

    connack: Code | None  # before CONNACK was sent
    disconnect: Code | None  # after it
    ack: Code | None = None  # in PUBACK and PUBREC


def _both(code: Code) -> Codes:
    return Codes(code, code)


def _all(code: Code) -> Codes:
    return Codes(code, code, code)


_SILENT: Final = Codes(None, None)

CODES: Final[Mapping[Why, Codes]] = MappingProxyType(
    {
        Why.CLIENT_DISCONNECT: _SILENT,
        Why.CLIENT_ENDED: _SILENT,
        Why.CONNECTION_LOST: _SILENT,
        Why.CONNECT_TIMEOUT: _SILENT,
        Why.KEEP_ALIVE_TIMEOUT: Codes(None, Code.KEEP_ALIVE_TIMEOUT),
        Why.IDLE_TIMEOUT: Codes(None, Code.KEEP_ALIVE_TIMEOUT),
        Why.HTTP_IDLE: _SILENT,
        Why.SESSION_TAKEN_OVER: Codes(Code.SERVER_BUSY, Code.SESSION_TAKEN_OVER),
        Why.SESSION_ENDED: _both(Code.SERVER_BUSY),
        Why.MALFORMED_PACKET: Codes(
            Code.MALFORMED_PACKET, Code.MALFORMED_PACKET, Code.IMPLEMENTATION_SPECIFIC_ERROR
        ),
        Why.PROTOCOL_VIOLATION: _both(Code.PROTOCOL_ERROR),
        Why.WEBSOCKET_VIOLATION: Codes(None, Code.PROTOCOL_ERROR),
        Why.UPGRADE_REFUSED: _SILENT,
        Why.ORIGIN_REFUSED: _SILENT,
        Why.STREAM_STALLED: _SILENT,  # of HTTP
        Why.PACKET_TOO_LARGE: _both(Code.PACKET_TOO_LARGE),
        Why.TOPIC_ALIAS_INVALID: Codes(Code.PROTOCOL_ERROR, Code.TOPIC_ALIAS_INVALID),
        Why.INCOMPLETE_PACKETS: _both(Code.QUOTA_EXCEEDED),
        Why.UNACCEPTABLE_PROTOCOL: Codes(Code.UNSUPPORTED_PROTOCOL_VERSION, Code.PROTOCOL_ERROR),
        Why.UNKNOWN_PROTOCOL: _SILENT,
        Why.IDENTIFIER_REJECTED: Codes(Code.CLIENT_IDENTIFIER_NOT_VALID, Code.PROTOCOL_ERROR),
        Why.AUTHENTICATION_METHOD: Codes(Code.BAD_AUTHENTICATION_METHOD, Code.PROTOCOL_ERROR),
        Why.TOPIC_INVALID: _all(Code.TOPIC_NAME_INVALID),
        Why.FILTER_INVALID: Codes(None, Code.TOPIC_FILTER_INVALID),
        Why.QOS_UNSUPPORTED: _both(Code.QOS_NOT_SUPPORTED),
        Why.RETAIN_UNSUPPORTED: _both(Code.RETAIN_NOT_SUPPORTED),
        Why.PAYLOAD_FORMAT: _all(Code.PAYLOAD_FORMAT_INVALID),
        Why.TOO_MANY_PROPERTIES: _all(Code.QUOTA_EXCEEDED),
        Why.RECEIVE_MAXIMUM: Codes(None, Code.RECEIVE_MAXIMUM_EXCEEDED),
        Why.TOPIC_RESERVED: Codes(
            Code.TOPIC_NAME_INVALID, Code.NOT_AUTHORIZED, Code.NOT_AUTHORIZED
        ),
        Why.SIGNATURE_REFUSED: _all(Code.NOT_AUTHORIZED),
        Why.NOT_AUTHORIZED: _all(Code.NOT_AUTHORIZED),
        Why.BAD_CREDENTIALS: Codes(Code.BAD_USER_NAME_OR_PASSWORD, Code.NOT_AUTHORIZED),
        Why.LOGIN_REQUIRED: _both(Code.NOT_AUTHORIZED),
        Why.LOGIN_BUSY: _both(Code.SERVER_BUSY),
        Why.LOGIN_BACKOFF: _both(Code.CONNECTION_RATE_EXCEEDED),
        Why.CREDENTIALS_REVOKED: Codes(Code.NOT_AUTHORIZED, Code.ADMINISTRATIVE_ACTION),
        Why.BANNED: Codes(Code.BANNED, Code.ADMINISTRATIVE_ACTION),
        Why.ADDRESS_LIMIT: _both(Code.CONNECTION_RATE_EXCEEDED),
        Why.QUOTA: _both(Code.QUOTA_EXCEEDED),
        Why.TLS_FAILED: _SILENT,
        Why.TLS_REQUIRED: _both(Code.NOT_AUTHORIZED),
        Why.PROXY_REFUSED: _SILENT,
        Why.TOO_MANY_CLIENTS: _both(Code.SERVER_BUSY),
        Why.TOO_MANY_SESSIONS: _both(Code.QUOTA_EXCEEDED),
        Why.SLOW_READER: _both(Code.QUOTA_EXCEEDED),
        Why.STORAGE_FULL: Codes(Code.SERVER_UNAVAILABLE, *[Code.QUOTA_EXCEEDED] * 2),
        Why.STORAGE_FAILED: Codes(Code.SERVER_UNAVAILABLE, Code.UNSPECIFIED_ERROR),
        Why.NO_QUORUM: Codes(Code.SERVER_UNAVAILABLE, Code.SERVER_BUSY),
        Why.LEADERSHIP_LOST: Codes(Code.SERVER_UNAVAILABLE, Code.SERVER_BUSY),
        Why.CLIENT_KILLED: Codes(Code.SERVER_BUSY, Code.ADMINISTRATIVE_ACTION),
        Why.KICKED: Codes(Code.SERVER_BUSY, Code.ADMINISTRATIVE_ACTION),
        Why.SERVER_SHUTDOWN: Codes(Code.SERVER_UNAVAILABLE, Code.SERVER_SHUTTING_DOWN),
        Why.INTERNAL_ERROR: _both(Code.UNSPECIFIED_ERROR),
    }
)
