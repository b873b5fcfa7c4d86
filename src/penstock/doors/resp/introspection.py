"""COMMAND, INFO and MONITOR; summaries of commands are the docstrings of their handlers."""

import os
from collections.abc import Callable
from pathlib import Path

from penstock import __version__
from penstock.doors.resp.access import ADMIN, MONITOR, OPEN
from penstock.doors.resp.calls import OK, Call, Commands, Spec, flat
from penstock.doors.resp.greeting import REDIS_VERSION
from penstock.doors.resp.parts import RespParts
from penstock.wire.resp import encode, glob

Figures = dict[str, object]
STATM = Path("/proc/self/statm")  # the memory of a process, in pages


def _command(call: Call) -> None:
    """Details of every command."""
    known = call.connection.commands.items()
    call.reply(encode.array([_details(call, name, spec) for name, spec in known]))


def _count(call: Call) -> None:
    """How many commands there are."""
    call.value(len(call.connection.commands))


def _list(call: Call) -> None:
    """Names of all commands: COMMAND LIST [FILTERBY PATTERN pattern]."""
    names = [name for name, _ in flat(call.connection.commands)]
    match call.args[2:]:
        case []:
            call.value(names)
        case [by, kind, pattern] if (by.upper(), kind.upper()) == (b"FILTERBY", b"PATTERN"):
            if fault := call.connection.subscriptions.size_fault([pattern]):
                call.fail(f"ERR {fault}")
                return
            matches = glob.compile(pattern.lower())
            call.value([name for name in names if matches(name)])
        case _:
            call.fail("ERR syntax error")


def _info_of(call: Call) -> None:
    """Details of some commands, or of all."""
    if len(call.args) == 2:
        _command(call)
        return
    found = []
    for name in call.args[2:]:
        spec = _find(call.connection.commands, name)
        known = spec and _details(call, name, spec)
        found.append(known or encode.null(call.connection.protocol))
    call.reply(encode.array(found))


def _docs(call: Call) -> None:
    """Summaries of some commands, or of all."""
    asked = call.args[2:] or call.connection.commands
    specs = {name: _find(call.connection.commands, name) for name in asked}
    call.value({name.lower(): _doc(name, spec) for name, spec in specs.items() if spec})


def _find(commands: Commands, name: bytes) -> Spec | None:
    first, _, second = name.upper().partition(b"|")
    spec = commands.get(first)
    if spec is None or not second:
        return spec
    return spec.subcommands.get(second) if spec.subcommands else None


def _details(call: Call, name: bytes, spec: Spec, prefix: bytes = b"") -> bytes:
    """The ten elements that Redis gives; three of them are always empty here."""
    protocol = call.connection.protocol
    full_name = prefix + name.lower()
    subcommands = spec.subcommands or {}
    nothing = encode.array([])
    return encode.array(
        [
            encode.bulk(full_name, protocol),
            encode.integer(spec.arity),
            encode.array([encode.simple(flag) for flag in spec.flags]),
            *map(encode.integer, spec.keys),
            nothing,
            nothing,
            nothing,
            encode.array(
                [_details(call, sub, of, full_name + b"|") for sub, of in subcommands.items()]
            ),
        ]
    )


def _doc(name: bytes, spec: Spec) -> dict[encode.Value, encode.Value]:
    summary = (spec.handler.__doc__ or "").partition("\n")[0]
    doc: dict[encode.Value, encode.Value] = {
        "summary": summary,
        "since": "1.0.0",
        "group": _group(name, spec),
    }
    if spec.subcommands:
        named = flat(spec.subcommands, name.lower() + b"|")
        doc["subcommands"] = {full: _doc(full, of) for full, of in named}
    return doc


def _group(name: bytes, spec: Spec) -> str:
    if name.upper().startswith(b"X"):
        return "stream"
    return "pubsub" if "pubsub" in spec.flags else "connection"


def _info(call: Call) -> None:
    """Figures about the broker: INFO [section …]."""
    asked = {name.decode(errors="replace").lower() for name in call.args[1:]}
    everything = not asked or not asked.isdisjoint({"default", "all", "everything"})
    parts = [
        _section(name, figures(call.door))
        for name, figures in SECTIONS.items()
        if everything or name.lower() in asked
    ]
    text = "\r\n".join(parts).encode()
    if call.connection.protocol == 3:
        call.reply(b"=%d\r\ntxt:%b\r\n" % (len(text) + 4, text))  # a string that says it is text
    else:
        call.value(text)


def _section(name: str, figures: Figures) -> str:
    lines = [f"# {name}", *(f"{key}:{value}" for key, value in figures.items())]
    return "".join(f"{line}\r\n" for line in lines)


def _server(door: RespParts) -> Figures:
    return {
        "redis_version": REDIS_VERSION,
        "penstock_version": __version__,
        "redis_mode": "standalone",
        "arch_bits": 64,
        "process_id": os.getpid(),
        "server_time_usec": door.wall_ms() * 1000,
    }


def _clients(door: RespParts) -> Figures:
    return {
        "connected_clients": door.counters.clients_connected,
        "maxclients": door.limits.clients_max,
        "blocked_clients": sum(
            getattr(one, "unblock", None) is not None for one in door.connections.clients
        ),
        "monitor_clients": len(door.registry.monitors),
        "pubsub_clients": sum(
            bool(one.subscriptions.count)
            for one in door.connections.clients
            if hasattr(one, "subscriptions")
        ),
    }


def _memory(_door: RespParts) -> Figures:
    used = _resident_bytes()
    return {"used_memory": used, "used_memory_human": f"{used / 2**20:.2f}M", "maxmemory": 0}


def _resident_bytes() -> int:
    try:
        pages = int(STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _persistence(door: RespParts) -> Figures:
    size = door.store.size()
    return {
        "loading": 0,
        "aof_enabled": 1,
        "aof_last_write_status": "err" if door.pipeline.failure else "ok",
        "penstock_durability": door.durability,
        "penstock_journal_bytes": size.bytes_used,
        "penstock_journal_messages": size.messages,
    }


def _stats(door: RespParts) -> Figures:
    counters = door.counters
    return {
        "total_connections_received": sum(counters.connections_total.values()),
        "total_commands_processed": door.registry.commands_total,
        "total_net_input_bytes": counters.bytes_in_total,
        "total_net_output_bytes": counters.bytes_out_total,
        "pubsub_channels": door.broker.routes.subscription_count,
        "pubsub_patterns": door.broker.routes.pattern_count,
        "penstock_messages_in": sum(counters.messages_in_total),
        "penstock_messages_out": sum(counters.messages_out_total),
        "penstock_messages_dropped": sum(counters.drops.values()),
    }


def _replication(_door: RespParts) -> Figures:
    return {"role": "master", "connected_slaves": 0}


def _keyspace(_door: RespParts) -> Figures:
    return {}  # topics are not counted: there may be millions, and /topics lists them


SECTIONS: dict[str, Callable[[RespParts], Figures]] = {
    "Server": _server,
    "Clients": _clients,
    "Memory": _memory,
    "Persistence": _persistence,
    "Stats": _stats,
    "Replication": _replication,
    "Keyspace": _keyspace,
}

_FLAGS = ("loading", "stale")


def _monitor(call: Call) -> None:
    """Show every command that is run from now on, without passwords."""
    call.reply(OK)
    call.connection.door.registry.monitors[call.connection.outbox] = None


COMMANDS = {
    b"MONITOR": Spec(_monitor, 1, ADMIN, flags=("admin", "noscript", "loading", "stale")),
    b"COMMAND": Spec(
        _command,
        -1,
        OPEN,
        flags=_FLAGS,
        subcommands={
            b"COUNT": Spec(_count, 2, OPEN, flags=_FLAGS),
            b"LIST": Spec(_list, -2, OPEN, flags=_FLAGS),
            b"INFO": Spec(_info_of, -2, OPEN, flags=_FLAGS),
            b"DOCS": Spec(_docs, -2, OPEN, flags=_FLAGS),
        },
    ),
    b"INFO": Spec(_info, -1, MONITOR, flags=_FLAGS),
}
