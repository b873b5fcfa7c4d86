"""CLIENT: who is connected, under which name."""

from penstock.doors.resp.access import ADMIN, MONITOR, OPEN
from penstock.doors.resp.calls import ALL, NEXT, OK, Call, RespClient, Spec, container
from penstock.doors.resp.faults import NOT_AN_INTEGER, SYNTAX, UNBLOCKED
from penstock.doors.resp.greeting import BAD_NAME, is_name
from penstock.obs.reasons import DisconnectReason


def _id(call: Call) -> None:
    """The number of this connection, unique since the broker started."""
    call.value(call.connection.client_number)


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
    """Accepted without effect: no client is ever evicted."""
    if call.args[2].upper() in {b"ON", b"OFF"}:
        call.reply(OK)
    else:
        call.fail(SYNTAX)


def _info(call: Call) -> None:
    """The line of this connection in CLIENT LIST."""
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
            found = [one for one in _all(call) if one.client_number in wanted_numbers]
        case [b"ID", _, *_]:
            call.fail("ERR Invalid client ID")
            return
        case _:
            call.fail(SYNTAX)
            return
    call.value("".join(map(_line, found)))


def _all(call: Call) -> list[RespClient]:
    clients = [one for one in call.door.connections.clients if isinstance(one, RespClient)]
    return sorted(clients, key=lambda client: client.client_number)


def _line(connection: RespClient) -> str:
    now = connection.door.monotonic()
    subscriptions = connection.subscriptions
    values = {
        "id": connection.client_number,
        "addr": connection.peer,
        "laddr": connection.local,
        "name": connection.client_name.decode("ascii"),
        "age": int(now - connection.accepted_at),
        "idle": int(now - connection.last_packet_at),
        "flags": _flags(connection),
        "db": 0,
        "sub": len(subscriptions.channels),
        "psub": len(subscriptions.patterns),
        "ssub": len(subscriptions.shards),
        "multi": len(connection.transaction.queue) if connection.transaction else -1,
        "cmd": connection.last_command.decode(errors="replace").lower() or "NULL",
        "user": connection.user,
        "redir": -1,
        "lib-name": connection.library[b"LIB-NAME"].decode("ascii"),
        "lib-ver": connection.library[b"LIB-VER"].decode("ascii"),
        "resp": connection.protocol,
    }
    return " ".join(f"{name}={value}" for name, value in values.items()) + "\n"


def _flags(connection: RespClient) -> str:
    flags = {
        "O": connection.outbox in connection.door.registry.monitors,
        "P": connection.subscriptions.count,
        "x": connection.transaction is not None,
        "b": connection.unblock is not None,
    }
    return "".join([flag for flag, is_so in flags.items() if is_so]) or "N"


def _kill(call: Call) -> None:
    """End connections: CLIENT KILL address, or filters ID, ADDR, LADDR, TYPE, USER, SKIPME."""
    if len(call.args) == 3:
        _kill_address(call, call.args[2])
        return
    try:
        found = [one for one in _all(call) if _Filters(call).accepts(one)]
    except ValueError as error:
        call.fail(str(error))
        return
    call.value(len(found))
    for one in found:
        one.close(DisconnectReason.CLIENT_KILLED)


def _kill_address(call: Call, address: bytes) -> None:
    found = [one for one in _all(call) if one.peer.encode() == address]
    if not found:
        call.fail("ERR No such client")
        return
    call.reply(OK)
    found[0].close(DisconnectReason.CLIENT_KILLED)


class _Filters:
    """Which connections the filters of CLIENT KILL mean. Raises ValueError with what is wrong."""

    def __init__(self, call: Call) -> None:
        filters = call.args[2:]
        if len(filters) % 2:
            raise ValueError(SYNTAX)
        self._own = call.connection
        self._users = call.door.broker.access.users
        self._skips_own = True
        self._wanted: list[tuple[bytes, bytes]] = []
        for name, value in zip(filters[::2], filters[1::2], strict=True):
            self._take(name.upper(), value)

    def _take(self, name: bytes, value: bytes) -> None:
        if name == b"SKIPME" and value.upper() in {b"YES", b"NO"}:
            self._skips_own = value.upper() == b"YES"
        elif name == b"ID":
            if not value.isdigit() or not int(value):
                raise ValueError("ERR client-id should be greater than 0")
            self._wanted.append((name, value))
        elif name == b"TYPE" and value.upper() not in _TYPES:
            raise ValueError(f"ERR Unknown client type '{value.decode(errors='replace')}'")
        elif name == b"USER" and not self._is_user(value):
            raise ValueError(f"ERR No such user '{value.decode(errors='replace')}'")
        elif name in {b"TYPE", b"USER", b"ADDR", b"LADDR"}:
            self._wanted.append((name, value))
        else:
            raise ValueError(SYNTAX)

    def _is_user(self, name: bytes) -> bool:
        return name == b"default" or name.decode(errors="replace") in self._users

    def accepts(self, connection: RespClient) -> bool:
        if connection is self._own and self._skips_own:
            return False
        has = {
            b"ID": b"%d" % connection.client_number,
            b"ADDR": connection.peer.encode(),
            b"LADDR": connection.local.encode(),
            b"TYPE": b"PUBSUB" if connection.subscriptions.count else b"NORMAL",
            b"USER": connection.user.encode(),
        }
        return all(
            has[name] == (value.upper() if name == b"TYPE" else value)
            for name, value in self._wanted
        )


_TYPES = {b"NORMAL", b"PUBSUB", b"MASTER", b"REPLICA", b"SLAVE"}


def _reply(call: Call) -> None:
    """Choose whether replies are wanted: CLIENT REPLY ON | OFF | SKIP."""
    connection, mode = call.connection, call.args[2].upper()
    if mode not in {b"ON", b"OFF", b"SKIP"}:
        call.fail(SYNTAX)
    elif not call.may_block:
        call.fail("ERR CLIENT REPLY is not allowed in a transaction: EXEC answers for all of it")
    elif mode == b"ON":
        connection.mutes = 0
        call.insist(OK)
    elif mode == b"OFF":
        connection.mutes = ALL
        call.reply(b"")
    else:
        connection.mutes = connection.mutes or NEXT
        call.reply(b"")


def _unblock(call: Call) -> None:
    """End the wait of a client: CLIENT UNBLOCK id [TIMEOUT | ERROR]."""
    how = call.args[3].upper() if len(call.args) == 4 else b"TIMEOUT"
    if len(call.args) > 4 or how not in {b"TIMEOUT", b"ERROR"}:
        call.fail("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
        return
    number = call.args[2]
    if not number.removeprefix(b"-").isdigit():
        call.fail(NOT_AN_INTEGER)
        return
    found = [one for one in _all(call) if one.client_number == int(number) and one.unblock]
    for one in found:
        assert one.unblock is not None
        one.unblock(UNBLOCKED if how == b"ERROR" else "")
    call.value(len(found))


_FLAGS = ("noscript", "loading", "stale")

COMMANDS = {
    b"CLIENT": container(
        {
            b"ID": Spec(_id, 2, OPEN, flags=_FLAGS),
            b"GETNAME": Spec(_getname, 2, OPEN, flags=_FLAGS),
            b"SETNAME": Spec(_setname, 3, OPEN, flags=_FLAGS),
            b"SETINFO": Spec(_setinfo, 4, OPEN, flags=_FLAGS),
            b"LIST": Spec(_list, -2, MONITOR, flags=_FLAGS),
            b"INFO": Spec(_info, 2, OPEN, flags=_FLAGS),
            b"KILL": Spec(_kill, -3, ADMIN, flags=_FLAGS),
            b"REPLY": Spec(_reply, 3, OPEN, flags=_FLAGS),
            b"UNBLOCK": Spec(_unblock, -3, ADMIN, flags=_FLAGS),
            b"NO-EVICT": Spec(_no_evict, 3, OPEN, flags=_FLAGS),
        }
    )
}
