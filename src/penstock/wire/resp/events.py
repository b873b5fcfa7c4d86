"""What the RESP machine reports: commands, and at most one violation, as the last event."""

from typing import TypeAlias

import msgspec

from penstock.wire.violation import Violation


class RespCommand(msgspec.Struct, frozen=True, gc=False):
    """A command; ``more`` has the last arguments of those that followed and only differ there."""

    args: list[bytes]
    more: list[bytes]


Event: TypeAlias = RespCommand | Violation  # what ``receive`` returns
