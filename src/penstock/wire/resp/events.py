"""What the RESP machine reports: commands, and at most one violation, as the last event."""

from typing import TypeAlias

import msgspec

from penstock.wire.violation import Violation


class RespCommand(msgspec.Struct, frozen=True, gc=False):
    """A command, and those after it that only differ in the last argument.

    ``args`` has at least one element, the command's name as it was sent. ``more`` has the last
    arguments of the commands that directly followed and were equal up to there: a pipeline of
    PUBLISH or XADD is one event. Each of them is a command of its own, and gets its own reply.
    """

    args: list[bytes]
    more: list[bytes]


Event: TypeAlias = RespCommand | Violation  # what ``receive`` returns
