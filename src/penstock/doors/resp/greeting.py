"""Commands about the connection itself: PING, ECHO, HELLO, AUTH, SELECT, RESET, QUIT."""

import hmac

from penstock.doors.resp.calls import OK, Call, Spec
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode

REDIS_VERSION = "7.0.15"  # the version of Redis that replies match; libraries look at it
_WRONG_PASSWORD = "WRONGPASS invalid username-password pair or user is disabled."  # noqa: S105
_AUTH_UNUSED = (
    "ERR AUTH <password> called without any password configured for the default user."
    " Are you sure your configuration is correct?"
)
_HELLO_NEEDS_AUTH = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto>"
    " AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol"
    " version at the same time"
)
BAD_NAME = "ERR Client names cannot contain spaces, newlines or special characters."


def _ping(call: Call) -> None:
    """Answer PONG, or the argument."""
    connection = call.connection
    if len(call.args) > 2:
        call.fail("ERR wrong number of arguments for 'ping' command")
    elif connection.protocol == 2 and connection.subscriptions.count:
        # The client takes everything in this mode for a message, so the reply looks like one.
        call.value([b"pong", call.args[1] if len(call.args) > 1 else b""])
    elif len(call.args) > 1:
        call.value(call.args[1])
    else:
        call.reply(encode.simple("PONG"))


def _echo(call: Call) -> None:
    """Answer the argument."""
    call.value(call.args[1])


def _select(call: Call) -> None:
    """Choose a database; there is one, 0."""
    number = call.args[1]
    if number == b"0":
        call.reply(OK)
    elif number.removeprefix(b"-").isdigit():
        call.fail("ERR DB index is out of range")
    else:
        call.fail("ERR value is not an integer or out of range")


def _quit(call: Call) -> None:
    """Close the connection."""
    call.reply(OK)
    call.connection.close(DisconnectReason.CLIENT_DISCONNECT)


def _reset(call: Call) -> None:
    """Reset the connection to the state of a new one."""
    connection = call.connection
    connection.subscriptions.clear()
    connection.door.registry.monitors.pop(connection.outbox, None)
    connection.mutes = 0
    connection.protocol = 2
    connection.client_name = b""
    connection.reads.is_local = False
    connection.forget_authentication()
    call.insist(encode.simple("RESET"))


def _auth(call: Call) -> None:
    """Authenticate: AUTH [user] password."""
    if len(call.args) > 3:
        call.fail("ERR syntax error")
    elif len(call.args) == 2 and not call.door.settings.password:
        call.fail(_AUTH_UNUSED)
    elif _is_admitted(call, *[b"default", *call.args[1:]][-2:]):
        call.reply(OK)
    else:
        call.fail(_WRONG_PASSWORD)


def _is_admitted(call: Call, user: bytes, password: bytes) -> bool:
    connection, door = call.connection, call.door
    wanted = door.settings.password.encode()
    if user == b"default" and (not wanted or hmac.compare_digest(password, wanted)):
        connection.authenticate()
        return True
    door.connections.throttled_log.info(
        "authentication_failed", protocol="resp", peer=connection.peer
    )
    return False


def _hello(call: Call) -> None:
    """Choose the protocol: HELLO [2 | 3 [AUTH user password] [SETNAME name]]."""
    asked = call.args[1:]
    if asked and not asked[0].removeprefix(b"-").isdigit():
        call.fail("ERR Protocol version is not an integer or out of range")
    elif asked and asked[0] not in {b"2", b"3"}:
        call.fail("NOPROTO unsupported protocol version")
    elif fault := _take_options(call, asked[1:]):
        call.fail(fault)
    else:
        connection = call.connection
        if asked:
            connection.protocol = 3 if asked[0] == b"3" else 2
            connection.limit()
        call.value(
            {
                "server": "redis",
                "version": REDIS_VERSION,
                "proto": connection.protocol,
                "id": connection.client_number,
                "mode": "standalone",
                "role": "master",
                "modules": [],
            }
        )


def _take_options(call: Call, options: list[bytes]) -> str:
    connection = call.connection
    credentials: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    while options:
        match options:
            case [option, user, password, *rest] if option.upper() == b"AUTH":
                credentials = user, password
            case [option, name, *rest] if option.upper() == b"SETNAME":
                if not is_name(name):
                    return BAD_NAME
            case _:
                shown = options[0].decode(errors="replace")
                return f"ERR Syntax error in HELLO option '{shown}'"
        options = rest
    if credentials is not None and not _is_admitted(call, *credentials):
        return _WRONG_PASSWORD
    if not connection.is_authenticated:
        return _HELLO_NEEDS_AUTH
    if name is not None:
        connection.client_name = name
    return ""


def is_name(name: bytes) -> bool:
    return all(0x21 <= byte <= 0x7E for byte in name)


_ALWAYS = ("noscript", "loading", "stale", "fast", "no_auth", "allow_busy")

COMMANDS = {
    b"PING": Spec(_ping, -1, flags=("fast",), while_subscribed=True),
    b"ECHO": Spec(_echo, 2, flags=("loading", "stale", "fast")),
    b"SELECT": Spec(_select, 2, flags=("loading", "stale", "fast")),
    b"AUTH": Spec(_auth, -2, flags=_ALWAYS),
    b"HELLO": Spec(_hello, -1, flags=_ALWAYS),
    b"RESET": Spec(_reset, 1, flags=_ALWAYS, while_subscribed=True, is_immediate=True),
    b"QUIT": Spec(_quit, -1, flags=_ALWAYS, while_subscribed=True, is_immediate=True),
}
