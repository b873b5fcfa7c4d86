"""What the RESP machine reports: commands, and at most one violation, as the last event."""

from typing import TypeAlias

import msgspec

from penstock.wire.violation import Violation


class RespCommand(msgspec.Struct, frozen=True, gc=False):
    """A command; ``more`` has the last arguments of those that followed and only differ there."""

    args: list[bytes]
    more: list[bytes]


class RespColumns(msgspec.Struct, frozen=True, gc=False):
    """Commands in a row with the same name and number of arguments, whatever these are.

    ``columns[i][n]`` is argument ``i + 1`` of command ``n``: the columns of PUBLISH are the
    channels and the payloads. ``rests[n]`` has the bytes of command ``n`` behind its name, without
    the last line end: ``$1 a $5 hello``. A subscriber gets the message with the same bytes.
    """

    name: bytes  # as the client writes it, in capitals or in small letters
    columns: list[list[bytes]]
    rests: list[bytes]

    def cut(self, start: int, stop: int | None = None) -> "RespColumns":
        """Some of the commands."""
        columns = [column[start:stop] for column in self.columns]
        return RespColumns(self.name, columns, self.rests[start:stop])

    def commands(self) -> "list[RespCommand]":
        """The same as single commands."""
        rows = zip(*self.columns, strict=True)
        return [RespCommand([self.name, *row], []) for row in rows]


Event: TypeAlias = RespCommand | RespColumns | Violation  # what ``receive`` returns
