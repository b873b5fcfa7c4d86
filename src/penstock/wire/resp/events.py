"""What the RESP machine reports: commands, and at most one violation, as the last event.

``kernel/resp.pyx`` has the compiled form of ``RespColumns``, which knows where the arguments are in
what was read, and makes objects of them only when somebody asks.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from penstock import kernel
from penstock.wire.resp import encode
from penstock.wire.violation import Violation


class MessageBatch(Protocol):
    """What messages are added to on their way to the journal."""

    def append_each(
        self, topics: Sequence[bytes], payloads: list[bytes], time_ms: int, flags: int
    ) -> int: ...


class PushOutbox(Protocol):
    """Where pushes to one client wait."""

    def send_live(self, count: int, frames: bytes, /) -> None: ...


Way: TypeAlias = Sequence[tuple[PushOutbox, bytes]]
"""Who gets messages: outboxes, with the head of their pushes."""


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

    @property
    def count(self) -> int:
        return len(self.rests)

    @property
    def arguments(self) -> int:
        """How many arguments each command has, its name included."""
        return 1 + len(self.columns)

    @property
    def distinct(self) -> list[bytes]:
        """The first arguments, each once, in order of their first command."""
        return list(dict.fromkeys(self.columns[0]))

    def cut(self, start: int, stop: int | None = None) -> "RespColumns":
        """Some of the commands."""
        columns = [column[start:stop] for column in self.columns]
        return RespColumns(self.name, columns, self.rests[start:stop])

    def of(self, names: Collection[bytes]) -> "RespColumns":
        """The commands whose first argument is one of ``names``."""
        places = [place for place, name in enumerate(self.columns[0]) if name in names]
        columns = [[column[place] for place in places] for column in self.columns]
        return RespColumns(self.name, columns, [self.rests[place] for place in places])

    def count_before(self, names: Collection[bytes]) -> int:
        """How many commands there are before the first whose first argument is none of these."""
        others = [place for place, name in enumerate(self.columns[0]) if name not in names]
        return others[0] if others else self.count

    def commands(self) -> "list[RespCommand]":
        """The same as single commands."""
        rows = zip(*self.columns, strict=True)
        return [RespCommand([self.name, *row], []) for row in rows]

    # what becomes of PUBLISH, whose first arguments are channels and whose last are payloads

    def pushes(self, head: bytes) -> bytes:
        """The messages with a head before each, as subscribers get them."""
        return encode.pushes(head, self.rests)

    def send_all(self, way: Way) -> None:
        """Push all messages to each of ``way``."""
        forms: dict[bytes, bytes] = {}
        for outbox, head in way:
            if head not in forms:
                forms[head] = self.pushes(head)
            outbox.send_live(self.count, forms[head])

    def send_each(self, ways: Sequence[Way]) -> None:
        """Push each message to those in ``ways``, which has one for each distinct name."""
        way_of = dict(zip(self.distinct, ways, strict=True))
        for name, rest in zip(self.columns[0], self.rests, strict=True):
            for outbox, head in way_of[name]:
                outbox.send_live(1, encode.pushes(head, [rest]))

    def answers(self, each: Mapping[bytes, bytes]) -> bytes:
        """The answers to all commands; ``each`` has them by first argument."""
        if len(each) == 1:
            (answer,) = each.values()
            return answer * self.count
        return b"".join(map(each.__getitem__, self.columns[0]))

    def append_to(
        self, batch: MessageBatch, topics: Mapping[bytes, bytes] | None, time_ms: int
    ) -> None:
        """Add the messages to a batch; ``topics`` has those of channels, if they differ."""
        channels, payloads = self.columns[0], self.columns[-1]
        if topics is not None:
            channels = [topics[channel] for channel in channels]
        batch.append_each(channels, payloads, time_ms, 0)


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.resp import RespColumns, set_command_class

    set_command_class(RespCommand)

Event: TypeAlias = RespCommand | RespColumns | Violation  # what ``receive`` returns
