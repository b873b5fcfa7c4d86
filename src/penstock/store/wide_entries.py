"""The index of entries with many topics: the entry's own columns, searched when somebody asks.

A row per topic costs a microsecond for each topic of a commit. Of an entry with hundreds of topics
the columns that tell where its groups are stay in memory as they were encoded, 32 bytes for each
group of one message, and a commit does no work per topic. The first reader who asks for a topic
pays for a dictionary of the entry. There are few such entries: the tail is folded when it has a
bounded number of groups.
"""

from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from penstock.store.entry import (
    BOUNDS,
    FIRST_OFFSETS,
    GROUP_MESSAGES,
    GROUP_RUNS,
    RUN_BOUNDS,
    RUN_POSITIONS,
    RUN_TIMES,
    TOPIC_IDS,
    Sections,
)

WIDE_GROUPS_MIN = 256  # topics from which on an entry is kept as columns

COLUMNS = (
    TOPIC_IDS,
    FIRST_OFFSETS,
    GROUP_MESSAGES,
    GROUP_RUNS,
    RUN_POSITIONS,
    RUN_BOUNDS,
    RUN_TIMES,
    BOUNDS,
)

ReferenceFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int]


class WideEntry:
    """The columns of one entry. Asked under the index's lock, or by the writer alone."""

    __slots__ = ("_columns", "_numbers", "base_sequence", "entry_index", "time_ms")

    def __init__(
        self, entry_index: int, base_sequence: int, time_ms: int, sections: Sections
    ) -> None:
        self.entry_index = entry_index
        self.base_sequence = base_sequence
        self.time_ms = time_ms
        self._columns = {
            section: memoryview(sections[section]).cast("Q" if section == FIRST_OFFSETS else "I")
            for section in COLUMNS
        }
        self._numbers: dict[int, int] | None = None

    @property
    def topic_ids(self) -> memoryview:
        return self._columns[TOPIC_IDS]

    @property
    def first_offsets(self) -> memoryview:
        return self._columns[FIRST_OFFSETS]

    @property
    def numbers(self) -> dict[int, int]:
        """The number of each topic's group, by id."""
        if self._numbers is None:
            ids = self.topic_ids.tolist()
            self._numbers = dict(zip(ids, range(len(ids)), strict=True))
        return self._numbers

    def first_offset(self, number: int) -> int:
        found: int = self._columns[FIRST_OFFSETS][number]
        return found

    def reference(self, number: int) -> ReferenceFields:
        """The fields of a ``Reference``."""
        columns, before = self._columns, number - 1
        message_ends, run_ends = columns[GROUP_MESSAGES], columns[GROUP_RUNS]
        positions, run_bounds, bounds = columns[RUN_POSITIONS], columns[RUN_BOUNDS], columns[BOUNDS]
        start, end = message_ends[before] if number else 0, message_ends[number]
        run, run_end = run_ends[before] if number else 0, run_ends[number]
        last = run_end - 1
        last_position = positions[last] + run_bounds[run_end] - run_bounds[last] - 1
        return (
            self.first_offset(number),
            self.base_sequence,
            self.entry_index,
            self.base_sequence + last_position,
            self.time_ms + max(columns[RUN_TIMES][run:run_end]),
            number,
            len(message_ends),
            end - start,
            bounds[end] - bounds[start],
        )


class WideEntries:
    """The wide entries of the tail, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[WideEntry] = deque()

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, entry: WideEntry) -> None:
        self._entries.append(entry)

    def references(self, topic_id: int) -> Iterator[ReferenceFields]:
        """A topic's references, ascending."""
        for entry in self._entries:
            number = entry.numbers.get(topic_id)
            if number is not None:
                yield entry.reference(number)

    def holds(self, topic_id: int) -> bool:
        for entry in self._entries:  # noqa: SIM110 - half the time of any()
            if topic_id in entry.numbers:
                return True
        return False

    def topic_ids(self, index: int) -> set[int]:
        """The topics of entries up to ``index``."""
        return set().union(
            *(entry.topic_ids.tolist() for entry in self._entries if entry.entry_index <= index)
        )

    def first_offsets(self) -> dict[int, int]:
        """The offset of each topic's first group."""
        found: dict[int, int] = {}
        for entry in reversed(self._entries):
            found.update(zip(entry.topic_ids, entry.first_offsets, strict=True))
        return found

    def forget(self, index: int) -> None:
        """Forget entries up to ``index``."""
        while self._entries and self._entries[0].entry_index <= index:
            self._entries.popleft()
