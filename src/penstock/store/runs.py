"""The runs of a batch, sorted by topic: they arrive in any order, an entry has them by topic.

Two cases need no sorting and are most of all commits: a single topic, and topics that have one run
each. Nothing here is work per topic in the interpreter that a column at once can do.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from operator import itemgetter

from penstock.store.message_columns import RUN_WIDTH, MessageColumns


class RunsByTopic:
    """Columns of a batch's runs, and its payloads, by topic; ``group_ends`` are numbers of runs."""

    __slots__ = ("bounds", "counts", "flags", "group_ends", "payloads", "positions", "times")

    def __init__(self, batch: MessageColumns, message_ends: list[int]) -> None:
        """``message_ends``: the cumulative number of messages of the topics."""
        runs = batch.runs
        groups = runs[0::RUN_WIDTH]
        self.counts: Sequence[int] = runs[1::RUN_WIDTH]
        self.times: Sequence[int] = runs[2::RUN_WIDTH]
        self.flags: Sequence[int] = runs[3::RUN_WIDTH]
        self.payloads: Sequence[bytes] = batch.payloads
        topics = len(batch.topics)
        is_single = len(groups) == batch.count  # each run is a message
        bounds = list(range(batch.count + 1) if is_single else accumulate(self.counts, initial=0))
        self.bounds: Sequence[int] = bounds  # where runs begin among the messages, then the end
        self.positions: Sequence[int] = bounds[:-1]
        if topics == 1:
            self.group_ends: Sequence[int] = (len(groups),)
        elif groups == list(range(topics)):
            self.group_ends = range(1, topics + 1)
        elif is_single:
            self._sort_singles(groups, message_ends)
        else:
            self._sort(groups, topics)

    def _sort_singles(self, groups: list[int], message_ends: list[int]) -> None:
        """Runs are numbered as messages are, so half of the columns are known."""
        order = _order_of(groups, len(message_ends))
        pick = itemgetter(*order)
        self.positions, self.group_ends = order, message_ends
        self.times, self.flags = pick(self.times), pick(self.flags)
        self.payloads = pick(self.payloads)

    def _sort(self, groups: list[int], topics: int) -> None:
        order = _order_of(groups, topics)
        pick = itemgetter(*order)
        self.positions, self.counts = pick(self.positions), pick(self.counts)
        self.times, self.flags = pick(self.times), pick(self.flags)
        self.bounds = list(accumulate(self.counts, initial=0))
        self.payloads = itemgetter(*self._messages())(self.payloads)
        runs = [0] * topics
        for group in groups:
            runs[group] += 1
        self.group_ends = list(accumulate(runs))

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


def _order_of(groups: list[int], topics: int) -> list[int]:
    """The numbers of all runs, sorted by group, stably."""
    if 2 * topics > len(groups):
        return sorted(range(len(groups)), key=groups.__getitem__)
    found: list[list[int]] = [[] for _ in range(topics)]
    for run, group in enumerate(groups):  # several runs per topic: cheaper than sorting
        found[group].append(run)
    return list(chain.from_iterable(found))
