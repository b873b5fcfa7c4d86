"""What the tests of RESP share: requests as a client packs them, events taken apart."""

import hiredis

from penstock.wire.resp import Event, RespColumns, RespCommand, RespServerMachine
from penstock.wire.violation import Violation


def packed(*args: bytes) -> bytes:
    """One command as hiredis sends it."""
    return hiredis.pack_command(args)


def stranger(**limits: int) -> RespServerMachine:
    machine = RespServerMachine(**limits)
    machine.is_trusted = False
    return machine


def taken_apart(events: list[Event]) -> list[list[bytes] | Violation]:
    """Runs as single commands: what does not depend on how the bytes were cut."""
    single: list[list[bytes] | Violation] = []
    for event in events:
        if isinstance(event, RespColumns):
            single += [command.args for command in event.commands()]
        elif isinstance(event, RespCommand):
            single += [event.args, *([*event.args[:-1], last] for last in event.more)]
        else:
            single.append(event)
    return single


def fed(machine: RespServerMachine, pieces) -> list[list[bytes] | Violation]:
    return [item for piece in pieces for item in taken_apart(machine.receive(piece))]


def byte_by_byte(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def error_of(data: bytes, machine: RespServerMachine | None = None) -> bytes:
    """Return the error line that a client gets for these bytes."""
    (violation,) = (machine or RespServerMachine()).receive(data)
    assert isinstance(violation, Violation)
    return violation.error
