"""Sinks: tables that are published to topics, epoch by epoch, each epoch once.

A sink remembers the last epoch that it has published, and a note that came with it. Epochs only
rise: one that is not greater than the last was published before, by an earlier run of the same
writer, and is ignored.

Publishing an epoch takes many commits. **Began** records which parts it has; that is the decision,
and nothing undoes it. **Advanced** is in the same journal entry as some of the messages, and says
where the next ones are, so that after a crash it is known which messages were published. **Ended**
goes with the last of them.

The row of a sink outlives it. What Forgotten does depends on whether an epoch is in progress, so a
replay that begins before it must not apply earlier entries to a sink that is not there: a **gone**
row says which entries to skip. It is deleted once replay begins after all of them.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from penstock.core.commands import SinkAdvanced, SinkBegan, SinkClaimed, SinkEnded, SinkForgotten

SinkCommand = SinkBegan | SinkClaimed | SinkAdvanced | SinkEnded | SinkForgotten

# numbers of the part, of the block in it, of the message in that
SinkPosition: TypeAlias = tuple[int, int, int]

NO_EPOCH = -1  # last epoch of a sink that has published none


class Committing(msgspec.Struct, array_like=True):
    """An epoch that is being published."""

    epoch: int
    parts: list[tuple[bytes, int]]  # names, and how many blocks each has
    note: bytes
    place: SinkPosition = (0, 0, 0)  # first message that is not published
    messages: int = 0  # published so far


class SinkState(msgspec.Struct, array_like=True):
    """The state of one sink."""

    name: bytes
    applied: int = 0  # last journal entry that this state contains; replay skips up to it
    epoch: int = NO_EPOCH  # last published
    note: bytes = b""  # of the last published epoch
    epoch_messages: int = 0  # of the last published epoch
    messages: int = 0  # of all epochs
    committed_ms: int = 0
    committing: Committing | None = None
    gone: bool = False  # whether it was forgotten; then only ``applied`` is meaningful
    user: str = ""  # to whom it belongs; "": nobody (``core.owners``)


_decoder = msgspec.msgpack.Decoder(SinkState)
_encoder = msgspec.msgpack.Encoder()


class Sinks:
    """All sinks, by name."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, SinkState] = {}
        self.dirty: dict[bytes, None] = {}  # names whose row on disk is outdated
        self._gone: dict[bytes, int] = {}  # forgotten sinks, and the entry that did it

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[SinkState]:
        return iter(self.by_name.values())

    def get(self, name: bytes) -> SinkState | None:
        return self.by_name.get(name)

    def apply(self, command: SinkCommand, index: int, *, recovering: bool) -> bool:
        """Apply a command; return whether it changed anything."""
        sink = self.by_name.get(command.sink)
        known = sink.applied if sink is not None else self._gone.get(command.sink, 0)
        if recovering and known >= index:
            return False
        match command:
            case SinkBegan():
                is_changed = self._began(command, sink)
            case SinkClaimed():
                is_changed = self._claimed(command, sink)
            case SinkForgotten():
                is_changed = self._forgotten(sink, index)
            case _:
                is_changed = sink is not None and _moved(command, sink)
        if is_changed:
            self.dirty[command.sink] = None
        return is_changed

    def _began(self, command: SinkBegan, sink: SinkState | None) -> bool:
        if sink is not None and sink.user and sink.user != command.user:
            return False
        if sink is None:
            sink = self._new(command.sink)
        elif sink.committing is not None or command.epoch <= sink.epoch:
            return False
        sink.user = command.user
        sink.committing = Committing(command.epoch, command.parts, command.note)
        return True

    def _claimed(self, command: SinkClaimed, sink: SinkState | None) -> bool:
        """Whether the sink belongs to this user now."""
        sink = sink or self._new(command.sink)
        if sink.user and sink.user != command.user:
            return False
        sink.user = command.user
        return True

    def _new(self, name: bytes) -> SinkState:
        sink = self.by_name[name] = SinkState(name)
        self._gone.pop(name, None)
        return sink

    def forget_user(self, user: str, index: int, *, recovering: bool) -> None:
        """A user was deleted: its sinks are nobody's, and keep their epochs."""
        for sink in self.by_name.values():
            if sink.user == user and not (recovering and sink.applied >= index):
                sink.user = ""
                self.dirty[sink.name] = None

    def _forgotten(self, sink: SinkState | None, index: int) -> bool:
        if sink is None or sink.committing is not None:
            return False
        del self.by_name[sink.name]
        self._gone[sink.name] = index
        return True

    def row(self, name: bytes, index: int, mark: int = 0) -> bytes | None:
        """The row of a sink as of entry ``index``; None: it has none.

        Replay begins after entry ``mark``, according to the disk.
        """
        sink = self.by_name.get(name)
        if sink is None:
            return self._gone_row(name, index, mark)
        sink.applied = index
        return _encoder.encode(sink)

    def _gone_row(self, name: bytes, index: int, mark: int) -> bytes | None:
        """The row of a forgotten sink, as long as replay begins before that."""
        if self._gone.get(name, 0) <= mark:
            self._gone.pop(name, None)
            return None
        self.dirty[name] = None  # to be deleted in a later round
        return _encoder.encode(SinkState(name, index, gone=True))

    def load(self, row: bytes) -> None:
        sink = _decoder.decode(row)
        if sink.gone:
            self._gone[sink.name] = sink.applied
            self.dirty[sink.name] = None
        else:
            self.by_name[sink.name] = sink


def _moved(command: SinkAdvanced | SinkEnded, sink: SinkState) -> bool:
    committing = sink.committing
    if committing is None or committing.epoch != command.epoch:
        return False
    committing.messages += command.count
    if isinstance(command, SinkAdvanced):
        committing.place = command.place
        return True
    sink.epoch, sink.note = committing.epoch, committing.note
    sink.epoch_messages = committing.messages
    sink.messages += committing.messages
    sink.committed_ms = command.now_ms
    sink.committing = None
    return True
