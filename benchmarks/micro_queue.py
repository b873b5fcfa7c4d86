"""What a work queue costs without sockets and disk: choosing, leasing and settling messages.

Run as ``python -m benchmarks.micro_queue``. A group polls 256 messages of a topic and settles them,
repeatedly: ``core/selection`` chooses, ``core/groups`` applies, as in the broker. Each line is the
best of several rounds, in CPU time, because noise only adds time.

The figures must not depend on the length of the backlog, nor on what is in flight: waiting messages
have no state, and a message in flight is found by its lease. The plain case is a topic whose
messages have one priority, the other has eight at random.
"""

import random
import sys
import time
from typing import NamedTuple

from penstock.core.commands import GroupMade, Leased, LeasesSettled
from penstock.core.groups import Groups
from penstock.core.priority_offsets import PRIORITIES, OffsetsByPriority
from penstock.core.selection import Picker

__all__ = ["BACKLOGS", "BATCH", "IN_FLIGHT", "Case", "settled_per_s"]

TOPIC, GROUP = b"t", b"g"
BATCH = 256
ROUNDS = 5
MEASURED = 20_480
"""Messages settled per round, in addition to the backlog."""

BACKLOGS = (1_000, 10_000, 100_000, 1_000_000)
IN_FLIGHT = (0, 100_000)

_NOW_MS = 1_000
_UNTIL_MS = 1_000_000


class Case(NamedTuple):
    """A queue to measure."""

    backlog: int
    in_flight: int
    priorities: int


class Queue:
    """One topic with one group, both without a journal."""

    def __init__(self, case: Case) -> None:
        self._groups = Groups()
        self._groups.apply(GroupMade(TOPIC, GROUP, 0), 1, recovering=False)
        count = case.in_flight + case.backlog + MEASURED
        self._offsets = _offsets(count, case.priorities)
        self._next_lease = 0
        while self._next_lease < case.in_flight:
            self.poll(min(1_024, case.in_flight - self._next_lease))

    def poll(self, maximum: int) -> tuple[int, int]:
        """Hand out messages; return the first lease and one past the last."""
        group = self._groups.get(TOPIC, GROUP)
        assert group is not None
        picker = Picker(self._offsets, group.heads, group.returned.by_priority, 0, _NOW_MS)
        runs = picker.pick(maximum, group.polls)
        first = self._next_lease
        self._next_lease += sum(end - start for _, start, end in runs)
        share = (b"", _UNTIL_MS, runs)
        leased = Leased(
            TOPIC,
            GROUP,
            group.version,
            0,
            picker.heads,
            picker.ahead,
            first,
            _NOW_MS,
            [share],
            picker.delayed,
            picker.expired,
        )
        self._groups.apply(leased, 2, recovering=False)
        return first, self._next_lease

    def settle(self, leases: tuple[int, int]) -> None:
        """Settle messages."""
        self._groups.apply(LeasesSettled(TOPIC, GROUP, [leases]), 3, recovering=False)


def _offsets(count: int, priorities: int) -> OffsetsByPriority:
    offsets = OffsetsByPriority(0)
    if priorities == 1:
        offsets.extend(0, count, 0)
        return offsets
    chosen = random.Random(1)
    for offset in range(count):
        offsets.extend(offset, 1, chosen.randrange(priorities))
    return offsets


def settled_per_s(case: Case) -> float:
    """Poll and settle alternately; the backlog never falls below its length."""
    queue = Queue(case)
    done = 0
    start = time.process_time()
    while done < MEASURED:
        first, end = queue.poll(BATCH)
        queue.settle((first, end))
        done += end - first
    return done / (time.process_time() - start)


def main() -> None:
    print(f"Python {sys.version.split()[0]}, polls of {BATCH}, best of {ROUNDS}")
    for priorities in (1, PRIORITIES):
        for backlog in BACKLOGS:
            for in_flight in IN_FLIGHT:
                case = Case(backlog, in_flight, priorities)
                rate = max(settled_per_s(case) for _ in range(ROUNDS))
                name = f"{backlog:,} waiting, {in_flight:,} in flight, {priorities} priorities"
                print(f"{name:<58}{1e6 / rate:>12.3f} us per message{rate:>16,.0f} /s")


if __name__ == "__main__":
    main()
