"""Requests for the ranges of a task: many topics in one scan, several replies in flight.

The broker sends the messages of a scan in the order in which it has them at hand: those of a topic
in order, topics in turns. So the position in each topic is kept here, and checked: a reply that
repeats or skips something would make rows twice, or lose them. If the scan is lost with the
connection, another one begins at these positions, and what is still under way of the old one is
ignored.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from penstock.client.errors import BrokerProtocolError, ClientError
from penstock.client.queue.session import QueueCall
from penstock.limits import SCAN_TOPICS_MAX
from penstock.spark.broker import client_for, is_transient, with_retries
from penstock.spark.columns import Numbers, ScannedRows, ScannedTopics, strings
from penstock.spark.offsets import OffsetRange
from penstock.spark.options import SourceOptions
from penstock.spark.planning import Loss
from penstock.wire.queue._generated.queue_pb2 import FetchedMany, Slice

FETCHES_IN_FLIGHT: Final = 4  # requests in flight
ANSWER_ROWS_MAX: Final = 65_536
ANSWER_ROWS: Final = 2_048  # expected of a reply, until there are some: the broker limits its bytes
IDLE_MAX: Final = 8  # replies in a row that move nothing

_numbers = count(1)  # of the scans of this process, which may share a connection


class ClientScan:
    """Ranges that are read together, and the position in each."""

    def __init__(self, ranges: list[OffsetRange]) -> None:
        self.number = next(_numbers)
        self.ranges = ranges
        self.count = len(ranges)
        self.next = np.array([one.begin for one in ranges], np.int64)
        self.ends = np.array([one.end for one in ranges], np.int64)
        incarnations = np.array([one.incarnation for one in ranges], np.int64)
        self.topics = ScannedTopics(strings([one.topic for one in ranges]), incarnations)
        self.rows_left = int((self.ends - self.next).sum())
        self.in_flight = 0
        self.is_begun = False
        self.is_over = False

    def asked(self) -> list[tuple[str, int, int, int]]:
        return [(one.topic, one.begin, one.end, one.incarnation) for one in self.ranges]

    def rest(self) -> list[OffsetRange]:
        left = np.flatnonzero(self.next < self.ends).tolist()
        return [self.ranges[place]._replace(begin=int(self.next[place])) for place in left]

    def removed(self, answer: FetchedMany) -> list[Loss]:
        """What is lost before the rows of a reply."""
        places = np.frombuffer(answer.removed_topics, "<u4").tolist()
        begins = np.frombuffer(answer.removed_begins, "<i8").tolist()
        ends = np.frombuffer(answer.removed_ends, "<i8").tolist()
        if not len(places) == len(begins) == len(ends) or max(places, default=0) >= self.count:
            raise _inconsistent("removed messages are of no topic, or their columns differ")
        spans = zip([self.ranges[place] for place in places], begins, ends, strict=True)
        return [
            Loss(one.topic, one.incarnation, begin, end, "removed")
            for one, begin, end in spans
            if begin < end
        ]

    def advance(self, answer: FetchedMany) -> None:
        """Move the positions to the end of a reply; raise if it does not continue them."""
        topics, begins, ends = _groups(answer.slices)
        if len(topics) and int(topics.max()) >= self.count:
            raise _inconsistent("a group is of no topic")
        order = np.argsort(topics, kind="stable")
        topics, begins, ends = topics[order], begins[order], ends[order]
        is_first = np.diff(topics, prepend=-1) > 0
        before = np.where(is_first, self.next[topics], np.concatenate([[0], ends])[: len(ends)])
        if (begins < before).any() or (ends > self.ends[topics]).any():
            raise _inconsistent("offsets do not ascend, or are beyond what was asked for")
        self.next[topics] = ends  # of several groups of a topic the last counts
        places = np.frombuffer(answer.removed_topics, "<u4")
        removed = np.minimum(np.frombuffer(answer.removed_ends, "<i8"), self.ends[places])
        np.maximum.at(self.next, places, removed)
        self.rows_left = int((self.ends - self.next).sum())

    def finish(self, answer: FetchedMany) -> Iterator[Loss]:
        """What of the ranges is lost, as of the last reply."""
        columns = (answer.incarnations, answer.end_offsets)
        incarnations, ends = (np.frombuffer(column, "<i8") for column in columns)
        if not len(incarnations) == len(ends) == len(self.ranges):
            raise _inconsistent("the last answer does not tell of all topics")
        for place in np.flatnonzero(self.next < self.ends).tolist():
            rest = self.ranges[place]._replace(begin=int(self.next[place]))
            if incarnations[place] != rest.incarnation:
                yield Loss(*rest, "made anew" if incarnations[place] else "deleted")
            elif ends[place] <= rest.begin:
                yield Loss(*rest, "cut back")


def _groups(slices: Iterable[Slice]) -> tuple[Numbers, Numbers, Numbers]:
    """Topic, first offset and end of each group of a reply."""
    topics, begins, lengths = [], [], []
    for part in slices:
        starts = np.frombuffer(part.group_starts, "<u4").astype(np.int64)
        topics.append(np.frombuffer(part.group_topics, "<u4").astype(np.int64))
        begins.append(np.frombuffer(part.group_offsets, "<i8"))
        lengths.append(np.diff(starts, append=part.count))
        if not len(starts) == len(topics[-1]) == len(begins[-1]):
            raise _inconsistent("columns of groups differ in length")
    if not topics:
        none = np.zeros(0, np.int64)
        return none, none, none
    firsts = np.concatenate(begins)
    return np.concatenate(topics), firsts, firsts + np.concatenate(lengths)


class _Asked(NamedTuple):
    """A request in flight."""

    scan: ClientScan
    pending: QueueCall[FetchedMany]


class ScanPipeline:
    """The requests of one task. Scans follow each other; the next begins before one has ended."""

    def __init__(self, options: SourceOptions, ranges: Iterable[OffsetRange]) -> None:
        self._options = options
        self._waiting = deque(_chunks(list(ranges)))
        self._open: list[ClientScan] = []  # begun, or about to begin again, and not over
        self._asked: deque[_Asked] = deque()
        self._answer_rows = ANSWER_ROWS
        self._idle = 0
        self.client = with_retries(
            options.retry, lambda: client_for(options.servers, options.login)
        )

    def answers(self) -> Iterator[ScannedRows | Loss]:
        """Yield rows, and losses before the rows that show them."""
        self._ask_ahead()
        while self._asked:
            scan, answer = self._answer(self._asked.popleft())
            scan.in_flight -= 1
            if not scan.is_over:
                yield from self._take(scan, answer)
            self._ask_ahead()

    def _take(self, scan: ClientScan, answer: FetchedMany) -> Iterator[ScannedRows | Loss]:
        if answer.unknown:
            self._note_idle(scan)
            self._begin_again(scan)
            return
        losses = scan.removed(answer)
        yield from losses
        scan.advance(answer)
        rows = sum(part.count for part in answer.slices)
        if rows or losses:
            self._idle = 0
        if rows:
            self._answer_rows = rows
            yield ScannedRows(scan.topics, answer.slices)
        if answer.last:
            self._end(scan)
            yield from scan.finish(answer)
        elif not rows and not losses:
            self._note_idle(scan)

    def _note_idle(self, scan: ClientScan) -> None:
        self._idle += 1
        if self._idle > IDLE_MAX:
            raise BrokerProtocolError(
                f"the broker made no progress in {scan.ranges[0].topic!r} and topics after it",
                "check that the broker and this package have the same version",
            )

    def _ask_ahead(self) -> None:
        while len(self._asked) < FETCHES_IN_FLIGHT:
            scan = self._next_to_ask()
            if scan is None:
                return
            self._asked.append(_Asked(scan, self._ask(scan)))

    def _next_to_ask(self) -> ClientScan | None:
        """The oldest scan of which more is expected than was asked for; else the next one."""
        for scan in self._open:
            if scan.in_flight * self._answer_rows < max(scan.rows_left, 1):
                return scan
        if not self._waiting:
            return None
        self._open.append(ClientScan(self._waiting.popleft()))
        return self._open[-1]

    def _ask(self, scan: ClientScan) -> QueueCall[FetchedMany]:
        ranges = () if scan.is_begun else scan.asked()
        scan.is_begun = True
        scan.in_flight += 1
        return self.client.begin_fetch_many(
            ranges, scan.number, max_messages=ANSWER_ROWS_MAX, columns=self._options.mask
        )

    def _answer(self, asked: _Asked) -> tuple[ClientScan, FetchedMany]:
        try:
            return asked.scan, self.client.finish(asked.pending)
        except ClientError as error:
            if not is_transient(error):
                raise
        scan = asked.scan if asked.scan.is_over else self._begin_again(asked.scan)
        if scan.is_over:
            return scan, FetchedMany()

        def attempt() -> FetchedMany:
            scan.is_begun, scan.in_flight = False, 0
            return self.client.finish(self._ask(scan))

        return scan, with_retries(self._options.retry, attempt)

    def _begin_again(self, scan: ClientScan) -> ClientScan:
        """Replace a scan by one of what is left; what is still under way of it is ignored."""
        rest = scan.rest()
        if not rest:
            self._end(scan)
            return scan
        scan.is_over = True
        again = ClientScan(rest)
        self._open[self._open.index(scan)] = again
        return again

    def _end(self, scan: ClientScan) -> None:
        scan.is_over = True
        self._open.remove(scan)


def _chunks(ranges: list[OffsetRange]) -> Iterator[list[OffsetRange]]:
    for first in range(0, len(ranges), SCAN_TOPICS_MAX):
        yield ranges[first : first + SCAN_TOPICS_MAX]


def _inconsistent(detail: str) -> BrokerProtocolError:
    return BrokerProtocolError(
        f"the broker sent inconsistent columns: {detail}",
        "check that the broker and this package have the same version",
    )
