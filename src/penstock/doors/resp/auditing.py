"""Commands that change topics and groups, with their records in the audit log."""

from collections.abc import Callable

from penstock.core.commands import Erased, Trimmed
from penstock.core.completion import Completion
from penstock.core.groups import GroupCommand
from penstock.doors.resp.awaiting import outcome_of
from penstock.doors.resp.calls import Call
from penstock.doors.resp.faults import CommandError


async def recorded(
    call: Call,
    what: str,
    topic: bytes,
    begin: Callable[[Completion[object]], None],
    group: bytes = b"",
    **after: object,
) -> object:
    """The result of a change that ``begin`` starts. Raises CommandError if it is refused."""
    door, author = call.door, call.connection.principal
    take_back = door.audit.client_changed(author, door.wall_ms(), what, topic, group, after)
    try:
        return await outcome_of(begin)
    except CommandError:
        take_back()
        raise


async def submitted_recorded(
    call: Call,
    what: str,
    command: GroupCommand | Trimmed | Erased,
    group: bytes = b"",
    **after: object,
) -> object:
    """The result of a command that is recorded, once both are on disk."""

    def begin(waiter: Completion[object]) -> None:
        call.door.pipeline.submit(command, waiter, durable=True)

    return await recorded(call, what, command.topic, begin, group, **after)
