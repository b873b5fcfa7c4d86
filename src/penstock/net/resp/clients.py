"""CLIENT: who is connected, under which name."""

from typing import TYPE_CHECKING

from penstock.net.resp.calls import OK, Call, Spec, container
from penstock.net.resp.greeting import BAD_NAME, is_name

if TYPE_CHECKING:
    from penstock.net.resp.connection import RespConnection

__all__ = ["COMMANDS"]

SYNTAX_ERROR = "ERR syntax error"


def _id(call: Call) -> None:
    """The number of this connection; no other ever had it."""
    call.value(call.connection.number)


def _getname(call: Call) -> None:
    """The name of this connection."""
    call.value(call.connection.client_name or None)


def _setname(call: Call) -> None:
    """Give this connection a name."""
    if is_name(call.args[2]):
        call.connection.client_name = call.args[2]
        call.reply(OK)
    else:
        call.fail(BAD_NAME)


def _setinfo(call: Call) -> None:
    """Say which library this is, LIB-NAME or LIB-VER."""
    option, value = call.args[2], call.args[3]
    library = call.connection.library
    shown = option.decode(errors="replace")
    if option.upper() not in library:
        call.fail(f"ERR Unrecognized option '{shown}'")
    elif not is_name(value):
        call.fail(f"ERR {shown} cannot contain spaces, newlines or special characters.")
    else:
        library[option.upper()] = value
        call.reply(OK)


def _no_evict(call: Call) -> None:
    """Nobody is ever evicted: accepted, and that is all."""
    if call.args[2].upper() in {b"ON", b"OFF"}:
        call.reply(OK)
    else:
        call.fail(SYNTAX_ERROR)


# ── the list ──────────────────────────────────────────────────────────────────────────────────


def _info(call: Call) -> None:
    """Tell of this connection what the list does."""
    call.value(_line(call.connection))


def _list(call: Call) -> None:
    """All connections: CLIENT LIST [TYPE normal | pubsub] [ID number …]."""
    match [argument.upper() for argument in call.args[2:]]:
        case []:
            found = _all(call)
        case [b"TYPE", b"NORMAL" | b"PUBSUB" as kind]:
            wanted = kind == b"PUBSUB"
            found = [one for one in _all(call) if bool(one.subscriptions.count) is wanted]
        case [b"TYPE", b"MASTER" | b"REPLICA" | b"SLAVE"]:
            found = []
        case [b"TYPE", kind]:
            call.fail(f"ERR Unknown client type '{kind.decode(errors='replace')}'")
            return
        case [b"ID", *numbers] if numbers and all(number.isdigit() for number in numbers):
            wanted_numbers = set(map(int, numbers))
            found = [one for one in _all(call) if one.number in wanted_numbers]
        case [b"ID", _, *_]:
            call.fail("ERR Invalid client ID")
            return
        case _:
            call.fail(SYNTAX_ERROR)
            return
    call.value("".join(map(_line, found)))


def _all(call: Call) -> "list[RespConnection]":
    """All connections of this protocol, in the order in which they came."""
    kind = type(call.connection)
    clients = [client for client in call.connection.hub.clients if isinstance(client, kind)]
    return sorted(clients, key=lambda client: client.number)


def _line(connection: "RespConnection") -> str:
    now = connection.hub.monotonic()
    subscriptions = connection.subscriptions
    values = {
        "id": connection.number,
        "addr": connection.peer,
        "laddr": connection.local,
        "name": connection.client_name.decode("ascii"),
        "age": int(now - connection.accepted_at),
        "idle": int(now - connection.spoke_at),
        "flags": "P" if subscriptions.count else "N",
        "db": 0,
        "sub": len(subscriptions.channels),
        "psub": len(subscriptions.patterns),
        "user": "default",
        "lib-name": connection.library[b"LIB-NAME"].decode("ascii"),
        "lib-ver": connection.library[b"LIB-VER"].decode("ascii"),
        "resp": connection.protocol,
    }
    return " ".join(f"{name}={value}" for name, value in values.items()) + "\n"


_FLAGS = ("noscript", "loading", "stale")

COMMANDS = {
    b"CLIENT": container(
        {
            b"ID": Spec(_id, 2, flags=_FLAGS),
            b"GETNAME": Spec(_getname, 2, flags=_FLAGS),
            b"SETNAME": Spec(_setname, 3, flags=_FLAGS),
            b"SETINFO": Spec(_setinfo, 4, flags=_FLAGS),
            b"LIST": Spec(_list, -2, flags=_FLAGS),
            b"INFO": Spec(_info, 2, flags=_FLAGS),
            b"NO-EVICT": Spec(_no_evict, 3, flags=_FLAGS),
        }
    ),
}
