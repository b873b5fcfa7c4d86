"""The runs of a batch, sorted by topic: they arrive in any order, an entry has them by topic.

Two cases need no sorting and are most of all commits: a single topic, and topics that have one run
each. Nothing here is work per topic in the interpreter that a column at once can do.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter

from penstock.store.batch import RUN_WIDTH, Batch


class RunsByTopic:
    """Columns of a batch's runs, and its payloads, by topic; ``group_ends`` are numbers of runs."""

    __slots__ = ("_ascends", "counts", "flags", "group_ends", "payloads", "positions", "times")

    def __init__(self, batch: Batch) -> None:
        runs = batch.runs
        groups = runs[0::RUN_WIDTH]
        self.counts: Sequence[int] = runs[1::RUN_WIDTH]
        self.times: Sequence[int] = runs[2::RUN_WIDTH]
        self.flags: Sequence[int] = runs[3::RUN_WIDTH]
        self._ascends = self.times == sorted(self.times)  # unless the clock was set back
        positions = list(accumulate(self.counts, initial=0))
        positions.pop()
        self.positions: Sequence[int] = positions
        self.payloads: Sequence[bytes] = batch.payloads
        topics = len(batch.topics)
        if topics == 1:
            self.group_ends: Sequence[int] = (len(groups),)
        elif groups == list(range(topics)):
            self.group_ends = range(1, topics + 1)
        else:
            self._sort(groups, topics)

    def _sort(self, groups: list[int], topics: int) -> None:
        order, self.group_ends = _order_of(groups, topics)
        pick = itemgetter(*order)
        self.positions, self.counts = pick(self.positions), pick(self.counts)
        self.times, self.flags = pick(self.times), pick(self.flags)
        if len(self.payloads) == len(groups):
            self.payloads = pick(self.payloads)
        else:
            self.payloads = itemgetter(*self._messages())(self.payloads)

    def _messages(self) -> list[int]:
        """The position of every message; most runs have one, and cost next to nothing."""
        found: list[int] = []
        positions, before = self.positions, 0
        for run, count in enumerate(self.counts):
            if count != 1:
                found += positions[before:run]
                found += range(positions[run], positions[run] + count)
                before = run + 1
        found += positions[before:]
        return found

    def last_positions(self) -> Sequence[int]:
        """Position of the last message of each group."""
        positions, counts = self.positions, self.counts
        return [positions[end - 1] + counts[end - 1] - 1 for end in self.group_ends]

    def newest_ms(self, latest_ms: int) -> Sequence[int]:
        """The newest time of each group, at most ``latest_ms``."""
        times, ends = self.times, self.group_ends
        if len(ends) == len(times):
            newest = times
        elif self._ascends:
            newest = [times[end - 1] for end in ends]
        else:
            newest = [max(times[start:end]) for start, end in pairwise(chain((0,), ends))]
        return newest if max(times) <= latest_ms else [min(found, latest_ms) for found in newest]


def _order_of(groups: list[int], topics: int) -> tuple[Sequence[int], Sequence[int]]:
    """The numbers of all runs, sorted by group, stably; and where each group ends there."""
    if 2 * topics > len(groups):
        order = sorted(range(len(groups)), key=groups.__getitem__)
        counts = Counter(itemgetter(*order)(groups))
        return order, list(accumulate(counts.values()))
    # several runs per topic: cheaper than sorting
    found: list[list[int]] = [[] for _ in range(topics)]
    for run, group in enumerate(groups):
        found[group].append(run)
    return list(chain.from_iterable(found)), list(accumulate(map(len, found)))
