"""Scheduled publishes: what is published when, and what became of the last firing.

The leader publishes what is due (``node.schedules``). One commit has the messages and **Fired**,
which says until when the schedule is done; it is void if another node leads by then. So a firing is
neither lost nor made twice, whatever crashes. When the next one is due comes with the command: the
tz databases of two nodes may differ.

A schedule that fires no more stays listed, until ``FINISHED_MAX`` later ones have ended. One whose
owner was deleted ends: a later user of that name is somebody else.

What a command does may depend on all schedules (there is a bound), so a replay needs the table as
it was at one moment. The row of the empty key has the entry that changed it last.
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from penstock.core.commands import ScheduleCancelled, ScheduleFired, ScheduleMade
from penstock.limits import SCHEDULES_BYTES_MAX, SCHEDULES_MAX
from penstock.model.schedule import ScheduledMessage, Timing

ScheduleCommand: TypeAlias = ScheduleMade | ScheduleFired | ScheduleCancelled

FINISHED_MAX = 100  # schedules that fire no more and are still listed

ACTIVE, DONE, OWNERLESS = "active", "done", "ownerless"

EXISTS = "there is a schedule of this name"
TOO_MANY = f"there are {SCHEDULES_MAX} schedules"
TOO_LARGE = f"all schedules together may have {SCHEDULES_BYTES_MAX >> 20} MiB of messages"
UNKNOWN = "there is no schedule of this name"

_VERSION_KEY = b""


class Schedule(msgspec.Struct, array_like=True):
    """The state of one schedule. ``user``, ``roles`` and ``via``: whose rights it has."""

    name: bytes
    revision: int  # the entry that created it: a later one of its name has another
    timing: Timing
    message: ScheduledMessage
    missed: str  # what becomes of missed firings (``schedules.plan``)
    user: str
    roles: tuple[str, ...]
    via: str
    created_ms: int
    next_ms: int  # the first firing that was not made; 0: it fires no more
    state: str = ACTIVE
    published: int = 0  # messages
    refused: int = 0  # firings
    skipped: int = 0  # missed firings without a message
    last_due_ms: int = 0  # the last firing that was made, refused or missed; 0: none
    last_ms: int = 0  # when that was
    last_result: str = ""  # published, refused or missed
    last_reason: str = ""  # of a refusal
    last_detail: str = ""
    client_id: bytes = b""  # owners of sessions have one (``core.owners``)


_decoder = msgspec.msgpack.Decoder(Schedule)
_encoder = msgspec.msgpack.Encoder()


class Schedules:
    """All schedules, by name."""

    def __init__(self) -> None:
        self.by_name: dict[bytes, Schedule] = {}
        self.dirty: dict[bytes, None] = {}  # names whose row on disk is outdated
        self.version = 0  # the entry that changed them last
        self._bytes = 0
        self._loaded_version = 0

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[Schedule]:
        return iter(self.by_name.values())

    def get(self, name: bytes) -> Schedule | None:
        return self.by_name.get(name)

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    def apply(self, command: ScheduleCommand, index: int, *, recovering: bool) -> str:
        """Apply a command; return why it did nothing, or nothing."""
        if recovering and self._loaded_version >= index:
            return ""  # the rows were taken after this entry
        match command:
            case ScheduleMade():
                fault = self._made(command, index)
            case ScheduleFired():
                fault = self._fired(command)
            case _:
                fault = "" if self._remove(command.name) else UNKNOWN
        if not fault:
            self._changed(command.name, index)
        return fault

    def _changed(self, name: bytes, index: int) -> None:
        self.dirty[name] = self.dirty[_VERSION_KEY] = None
        self.version = index

    def _made(self, command: ScheduleMade, index: int) -> str:
        known = self.by_name.get(command.name)
        if known is not None and known.state == ACTIVE:
            return EXISTS
        if known is None and len(self.by_name) >= SCHEDULES_MAX:
            return TOO_MANY
        replaced = known.message.size if known is not None else 0
        if self._bytes - replaced + command.message.size > SCHEDULES_BYTES_MAX:
            return TOO_LARGE
        self._remove(command.name)
        self._bytes += command.message.size
        self.by_name[command.name] = Schedule(
            command.name,
            index,
            command.timing,
            command.message,
            command.missed,
            command.user,
            command.roles,
            command.via,
            command.now_ms,
            command.next_ms,
        )
        return ""

    def _fired(self, command: ScheduleFired) -> str:
        schedule = self.by_name.get(command.name)
        if schedule is None or not is_due(schedule, command):
            return UNKNOWN
        schedule.next_ms = command.next_ms
        schedule.published += command.published
        schedule.refused += command.refused
        schedule.skipped += command.skipped
        schedule.last_due_ms, schedule.last_ms = command.last_due_ms, command.now_ms
        schedule.last_reason, schedule.last_detail = command.reason, command.detail
        has_refused = "refused" if command.refused else "missed"
        schedule.last_result = "published" if command.published else has_refused
        if not command.next_ms:
            self._end(schedule, DONE)
        return ""

    def _end(self, schedule: Schedule, state: str) -> None:
        schedule.state, schedule.next_ms = state, 0
        ended = [one for one in self.by_name.values() if one.state != ACTIVE]
        if len(ended) > FINISHED_MAX:
            oldest = min(ended, key=lambda one: (one.last_ms, one.name))
            self._remove(oldest.name)
            self.dirty[oldest.name] = None

    def _remove(self, name: bytes) -> bool:
        schedule = self.by_name.pop(name, None)
        if schedule is None:
            return False
        self._bytes -= schedule.message.size
        return True

    def forget_user(self, user: str, index: int, *, recovering: bool) -> None:
        """A user was deleted, and with it what it had scheduled."""
        if recovering and self._loaded_version >= index:
            return
        for schedule in [one for one in self if one.user == user and one.state == ACTIVE]:
            self._end(schedule, OWNERLESS)
            self._changed(schedule.name, index)

    # ── rows ──────────────────────────────────────────────────────────────────────────────────

    def row(self, key: bytes) -> bytes | None:
        if key == _VERSION_KEY:
            return _encoder.encode(self.version)
        schedule = self.by_name.get(key)
        return None if schedule is None else _encoder.encode(schedule)

    def row_keys(self) -> list[bytes]:
        return list(self.by_name)

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        for key, row in rows:
            if key == _VERSION_KEY:
                self.version = self._loaded_version = msgspec.msgpack.decode(row, type=int)
                continue
            schedule = self.by_name[key] = _decoder.decode(row)
            self._bytes += schedule.message.size


def is_due(schedule: Schedule, fired: ScheduleFired) -> bool:
    """Whether this firing is the one that the schedule waits for: it was not made before."""
    return (schedule.revision, schedule.next_ms) == (fired.revision, fired.due_ms)
