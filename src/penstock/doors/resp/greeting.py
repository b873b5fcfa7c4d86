"""Commands about the connection itself: PING, ECHO, HELLO, AUTH, SELECT, RESET, QUIT."""

from typing import NamedTuple

from penstock.doors.resp.access import OPEN
from penstock.doors.resp.authentication import is_unused, log_in
from penstock.doors.resp.calls import DEFAULT_USER, OK, Call, Spec
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode

REDIS_VERSION = "7.0.15"  # the version of Redis that replies match; libraries look at it
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
    is_short = len(call.args) == 2
    if len(call.args) > 3:
        call.fail("ERR syntax error")
    elif is_short and is_unused(call.door):
        call.fail(_AUTH_UNUSED)
    else:
        user = DEFAULT_USER.encode() if is_short else call.args[1]
        log_in(call, user, call.args[-1], lambda fault: _answer_auth(call, fault))


def _answer_auth(call: Call, fault: str) -> None:
    if fault:
        call.fail(fault)
    else:
        call.reply(OK)


def _hello(call: Call) -> None:
    """Choose the protocol: HELLO [2 | 3 [AUTH user password] [SETNAME name]]."""
    asked = call.args[1:]
    if asked and not asked[0].removeprefix(b"-").isdigit():
        call.fail("ERR Protocol version is not an integer or out of range")
    elif asked and asked[0] not in {b"2", b"3"}:
        call.fail("NOPROTO unsupported protocol version")
    elif isinstance(options := _options(asked[1:]), str):
        call.fail(options)
    elif options.credentials is None:
        _greet(call, asked, options, "")
    else:
        log_in(call, *options.credentials, lambda fault: _greet(call, asked, options, fault))


def _greet(call: Call, asked: list[bytes], options: "_HelloOptions", fault: str) -> None:
    connection = call.connection
    if fault or not connection.is_authenticated:
        call.fail(fault or _HELLO_NEEDS_AUTH)
        return
    if options.name is not None:
        connection.client_name = options.name
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


class _HelloOptions(NamedTuple):
    credentials: tuple[bytes, bytes] | None
    name: bytes | None


def _options(options: list[bytes]) -> _HelloOptions | str:
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
    return _HelloOptions(credentials, name)


def is_name(name: bytes) -> bool:
    return all(0x21 <= byte <= 0x7E for byte in name)


_ALWAYS = ("noscript", "loading", "stale", "fast", "no_auth", "allow_busy")

COMMANDS = {
    b"PING": Spec(_ping, -1, OPEN, flags=("fast",), while_subscribed=True),
    b"ECHO": Spec(_echo, 2, OPEN, flags=("loading", "stale", "fast")),
    b"SELECT": Spec(_select, 2, OPEN, flags=("loading", "stale", "fast")),
    b"AUTH": Spec(_auth, -2, OPEN, flags=_ALWAYS),
    b"HELLO": Spec(_hello, -1, OPEN, flags=_ALWAYS),
    b"RESET": Spec(_reset, 1, OPEN, flags=_ALWAYS, while_subscribed=True, is_immediate=True),
    b"QUIT": Spec(_quit, -1, OPEN, flags=_ALWAYS, while_subscribed=True, is_immediate=True),
}
