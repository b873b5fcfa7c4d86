"""The reason codes of MQTT 5 in words, as errors that say what to do.

A broker may send its own words, a reason string. They are preferred: it knows the limit and the
name that ours can only hint at. They are a stranger's words, so they are cut and escaped.
"""

from typing import Final, TypeVar

from penstock.client.errors import (
    ClientError,
    ConnectionLostError,
    LoginFailedError,
    RefusedError,
    TakenOverError,
)
from penstock.wire.mqtt.properties import NONE, Properties
from penstock.wire.mqtt.reason_codes import ReasonCode

REASON_CHARACTERS: Final = 200

_ErrorT = TypeVar("_ErrorT", bound=ClientError)

_LATER: Final = "try again later; its /ready page says why"
_ALLOWED: Final = "if a rule forbids it, penstock acl check USER ACTION TOPIC names the rule"
_LOG: Final = "its log says why"
_CHECK: Final = "check it"
_BUG: Final = "is it another kind of server? Its log says more"

_C = ReasonCode
_WORDS: Final[dict[int, tuple[str, str]]] = {
    _C.SUCCESS: ("it gave no reason", _LOG),
    _C.UNSPECIFIED_ERROR: ("it gave no reason", _LOG),
    _C.MALFORMED_PACKET: ("it could not read a packet of ours", _BUG),
    _C.PROTOCOL_ERROR: ("it did not expect a packet of ours", _BUG),
    _C.IMPLEMENTATION_SPECIFIC_ERROR: ("it does not support this", _LOG),
    _C.UNSUPPORTED_PROTOCOL_VERSION: ("it does not speak MQTT 5", "connect with version=4"),
    _C.CLIENT_IDENTIFIER_NOT_VALID: (
        "it does not accept this client id",
        "choose another one, or none",
    ),
    _C.BAD_USER_NAME_OR_PASSWORD: ("user name or password is wrong", "check them"),
    _C.NOT_AUTHORIZED: ("this user may not do that", _ALLOWED),
    _C.SERVER_UNAVAILABLE: ("it is not available", _LATER),
    _C.SERVER_BUSY: ("it is busy", _LATER),
    _C.BANNED: ("this client is banned", "ask the administrator; see penstock bans"),
    _C.SERVER_SHUTTING_DOWN: ("it is shutting down", "connect again when it is back"),
    _C.BAD_AUTHENTICATION_METHOD: (
        "it does not offer this way to log in",
        "connect without scram, over TLS",
    ),
    _C.KEEP_ALIVE_TIMEOUT: (
        "it heard nothing from us for too long",
        "call receive, ping or idle within the keep-alive, or choose a longer one",
    ),
    _C.SESSION_TAKEN_OVER: (
        "another client connected with the same client id",
        "give each client an id of its own",
    ),
    _C.TOPIC_FILTER_INVALID: ("it does not accept this topic filter", _CHECK),
    _C.TOPIC_NAME_INVALID: ("it does not accept this topic", _CHECK),
    _C.PACKET_IDENTIFIER_IN_USE: ("a packet id is in use", "begin with a clean session"),
    _C.PACKET_IDENTIFIER_NOT_FOUND: ("a packet id is not known", "begin with a clean session"),
    _C.RECEIVE_MAXIMUM_EXCEEDED: ("too many messages were in flight", _BUG),
    _C.TOPIC_ALIAS_INVALID: ("it does not accept a topic alias", "connect without topic_aliases"),
    _C.PACKET_TOO_LARGE: ("the packet is too large", "send less at once"),
    _C.MESSAGE_RATE_TOO_HIGH: ("messages come too fast", "publish more slowly"),
    _C.QUOTA_EXCEEDED: ("a limit is reached", "its log says which; see penstock status"),
    _C.ADMINISTRATIVE_ACTION: ("an administrator closed it", "ask the administrator"),
    _C.PAYLOAD_FORMAT_INVALID: (
        "the payload is not UTF-8, though payload_format says so",
        "publish it without payload_format",
    ),
    _C.RETAIN_NOT_SUPPORTED: ("it does not retain messages", "publish without retain"),
    _C.QOS_NOT_SUPPORTED: ("it does not support this QoS", "use a lower one"),
    _C.USE_ANOTHER_SERVER: ("use another server for now", "name another node"),
    _C.SERVER_MOVED: ("it has moved", "ask the administrator for the new address"),
    _C.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: (
        "it has no shared subscriptions",
        "subscribe without $share/",
    ),
    _C.CONNECTION_RATE_EXCEEDED: ("too many connections are being made", "connect more slowly"),
    _C.MAXIMUM_CONNECT_TIME: ("the connection lasted as long as it may", "connect again"),
    _C.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: (
        "it has no subscription identifiers",
        "subscribe without subscription_id",
    ),
    _C.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: (
        "it has no wildcards in filters",
        "subscribe to each topic",
    ),
}
_LOGIN: Final = {_C.BAD_USER_NAME_OR_PASSWORD, _C.NOT_AUTHORIZED, _C.BAD_AUTHENTICATION_METHOD}
_LOGIN_WORDS: Final = (
    "a login is required, or this user may not connect like this",
    "give a user and its password (credentials=, --user), or ask the administrator",
)

# a DISCONNECT with one of these says nothing against connecting again
PASSING: Final = frozenset(
    {
        _C.SUCCESS,
        _C.UNSPECIFIED_ERROR,
        _C.SERVER_UNAVAILABLE,
        _C.SERVER_BUSY,
        _C.SERVER_SHUTTING_DOWN,
        _C.KEEP_ALIVE_TIMEOUT,
        _C.USE_ANOTHER_SERVER,
        _C.SERVER_MOVED,
        _C.CONNECTION_RATE_EXCEEDED,
        _C.MAXIMUM_CONNECT_TIME,
    }
)


class VersionRefusedError(RefusedError):
    """The broker does not speak the version of MQTT that we asked for."""


def version_refused() -> VersionRefusedError:
    reason, advice = _WORDS[_C.UNSUPPORTED_PROTOCOL_VERSION]
    return VersionRefusedError(f"the broker refused the connection: {reason}", advice)


def needs_version_5(what: str) -> RefusedError:
    return RefusedError(
        f"{what}: that needs MQTT 5, and this connection speaks 3.1.1",
        "connect to a broker that speaks 5, without version=4 (--mqtt-version 5)",
    )


def connection_refused(code: int, properties: Properties) -> RefusedError:
    """The error for a CONNACK of MQTT 5."""
    if code == _C.UNSUPPORTED_PROTOCOL_VERSION:
        return version_refused()
    reason, advice = _words(code, properties)
    if code == _C.NOT_AUTHORIZED:
        own, advice = _LOGIN_WORDS
        reason = reason_string(properties) or own
    kind = LoginFailedError if code in _LOGIN else RefusedError
    error = kind(f"the broker refused the connection: {reason}", advice)
    return _coded(error, code, properties)


def disconnected(code: int, properties: Properties) -> ConnectionLostError | TakenOverError:
    """The error for a DISCONNECT, which only a broker of MQTT 5 sends."""
    reason, advice = _words(code, properties)
    what = f"the broker closed the connection: {reason}"
    if code == _C.SESSION_TAKEN_OVER:
        return _coded(TakenOverError(what, advice), code, properties)
    return _coded(ConnectionLostError(what, advice), code, properties)


def publish_refused(code: int, properties: Properties, refused: int, count: int) -> RefusedError:
    """The error for ``refused`` of ``count`` messages; ``code`` is that of the first."""
    reason, advice = _words(code, properties)
    which = "the message" if count == 1 else f"{refused:,} of {count:,} messages"
    return _coded(RefusedError(f"the broker refused {which}: {reason}", advice), code, properties)


def subscribe_refused(filters: list[str], code: int, reason: str) -> RefusedError:
    """The error for filters that SUBACK refuses; the code of 3.1.1 has no meaning of its own."""
    words, advice = _advised(code, reason)
    if code == _C.UNSPECIFIED_ERROR and not reason:
        words, advice = "", f"ask with MQTT 5, which tells the reason; {_ALLOWED}"
    names = ", ".join(map(repr, filters))
    why = f": {words}" if words else ""
    error = RefusedError(f"the broker refused to subscribe to {names}{why}", advice)
    return _coded(error, code, NONE)


def reason_string(properties: Properties) -> str:
    """The broker's own words, fit for a terminal; empty if it sent none."""
    text = (properties.reason_string or b"").decode()[:REASON_CHARACTERS]
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _words(code: int, properties: Properties) -> tuple[str, str]:
    words, advice = _advised(code, reason_string(properties))
    if server := server_reference(properties):
        advice = f"connect to {server}"
    return words, advice


def _advised(code: int, reason: str) -> tuple[str, str]:
    """The broker's reason, or ours. After its own words, "look for the reason" is no advice."""
    words, advice = _WORDS.get(code, (f"it gave code {code:#04x}", _LOG))
    return reason or words, "" if reason and advice in {_LOG, _CHECK} else advice


def server_reference(properties: Properties) -> str:
    """Where the broker sends us; only fit for a person, who has to judge it."""
    text = (properties.server_reference or b"").decode()[:REASON_CHARACTERS]
    return text if text.isprintable() else ""


def _coded(error: _ErrorT, code: int, properties: Properties) -> _ErrorT:
    error.reason_code = code
    error.server_reference = server_reference(properties)
    return error
