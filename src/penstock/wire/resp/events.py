"""What the RESP machine reports: commands, and at most one violation, which is the last event."""

from typing import TypeAlias

import msgspec

from penstock.wire.violation import Violation


class RespCommand(msgspec.Struct, frozen=True, gc=False):
    """One command, and those behind it that differ from it in nothing but the last argument.

    ``args`` has at least one element, the command's name as it was sent. ``more`` holds the last
    arguments of the commands that followed directly and were the same byte for byte up to there:
    what a client that pipelines PUBLISH or XADD sends is one event. Each of them is a command in
    its own right, and is answered as such.
    """

    args: list[bytes]
    more: list[bytes]


Event: TypeAlias = RespCommand | Violation  # whatever ``receive`` of the machine may return
