"""How far the next batch goes, how it is cut into partitions, and what of it is lost.

Pure: positions and what the broker has go in, positions and ranges come out. The same input gives
the same partitions, which is what makes a batch that runs again the same batch.

**Limits.** Rows of a limited batch are shared out in proportion to what waits in each topic, but at
least one for each topic, so that a small one is not starved by a large one. If there are more
topics than rows, they take turns: the first of this batch is the one after the last of the batch
before, which is known from how many rows were read in all.

**Partitions.** All ranges, one behind the other, are one line of rows, and the line is cut into
equal pieces. A large topic is so read by many tasks, and many small topics by few: 50,000 of them
must not become 50,000 tasks.

**Loss.** What retention removed before it was read, or what was in a topic that was deleted.
Offsets that are missing *above* the topic's first one were deleted on purpose, and are not.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from penstock.spark.offsets import OffsetRange, Partitioning, StreamPosition, TopicPosition

ROWS_PER_TASK: Final = 50_000
"""Less than this is not worth a task of its own: Spark needs some milliseconds to start one."""

ROWS_PER_RANGE: Final = 500
"""What it costs to turn to another topic, in rows: a question more for the broker."""


class TopicState(NamedTuple):
    """A topic as the broker has it."""

    incarnation: int
    first: int
    """The oldest offset there is."""
    end: int
    """One past the newest."""
    messages: int = 0
    bytes: int = 0


class Loss(NamedTuple):
    """Offsets that cannot be read any more, and why; ``end`` is None if it is not known."""

    topic: str
    incarnation: int
    begin: int
    end: int | None
    reason: str


# ── How far ───────────────────────────────────────────────────────────────────────────────────


def lag_of(start: StreamPosition, seen: Mapping[str, TopicState]) -> dict[str, int]:
    """How many offsets wait in each topic that has some."""
    lags = {}
    for name, topic in seen.items():
        lag = topic.end - next_of(start.topics.get(name), topic)
        if lag > 0:
            lags[name] = lag
    return lags


def next_of(spot: TopicPosition | None, topic: TopicState) -> int:
    """What is read next of a topic: its oldest if it is new to us, or made anew."""
    if spot is None or spot.incarnation != topic.incarnation:
        return topic.first
    return spot.next


def advance(
    start: StreamPosition,
    seen: Mapping[str, TopicState],
    takes: Mapping[str, int],
    cut: Partitioning,
    resting: Mapping[str, TopicPosition] | None = None,
) -> StreamPosition:
    """Where a batch ends that takes so many offsets of each topic.

    Topics that the broker no longer has leave the position; ``lost_with_topics`` reports what was
    lost with them. Topics that are no longer subscribed to (``resting``) keep their position: if
    they are subscribed to again, reading resumes there. If a topic now ends before our position,
    the broker was restored from an older copy, and we move back with it.
    """
    spots = dict(resting or {})
    for name, topic in seen.items():
        spot = start.topics.get(name)
        begin = next_of(spot, topic)
        is_known = spot is not None and spot.incarnation == topic.incarnation
        first = spot.first if spot is not None and is_known else topic.first
        spots[name] = TopicPosition(
            topic.incarnation, min(begin + takes.get(name, 0), topic.end), first
        )
    return StreamPosition(spots, cut)


def share(lags: Mapping[str, int], total: int, turn: int = 0) -> dict[str, int]:
    """Share ``total`` out in proportion to lags, at least one for each as far as it goes."""
    if sum(lags.values()) <= total:
        return dict(lags)
    names = sorted(lags)
    if len(names) >= total:
        return {names[(turn + place) % len(names)]: 1 for place in range(total)}
    return _proportional({name: lags[name] - 1 for name in names}, total - len(names))


def _proportional(rests: Mapping[str, int], total: int) -> dict[str, int]:
    """One for each, and of ``total`` a part in proportion; what rounding leaves goes in turn."""
    whole = sum(rests.values())
    parts = {name: 1 + total * rest // whole for name, rest in rests.items()}
    left = total + len(rests) - sum(parts.values())
    by_remainder = sorted(rests, key=lambda name: (-(total * rests[name] % whole), name))
    for name in by_remainder[:left]:
        parts[name] += 1
    return parts


def share_bytes(
    sizes: Mapping[str, int], means: Mapping[str, int], total: int, turn: int = 0
) -> dict[str, int]:
    """Share bytes out in the same way: one message of mean size for each, then in proportion.

    If that is too much for all, they take turns; one gets something, whatever its size. Sizes are
    estimates, so a share may be more than the size it is for.
    """
    names = sorted(sizes)
    least = {name: max(1, means[name]) for name in names}
    if sum(least.values()) > total:
        return _in_turn(least, total, turn)
    left, whole = total - sum(least.values()), sum(sizes.values())
    return {name: least[name] + left * sizes[name] // max(1, whole) for name in names}


def _in_turn(least: Mapping[str, int], total: int, turn: int) -> dict[str, int]:
    """As many as fit, from whose turn it is; one at least."""
    names = list(least)
    taken: dict[str, int] = {}
    for place in range(len(names)):
        name = names[(turn + place) % len(names)]
        if taken and least[name] > total:
            break
        taken[name] = least[name]
        total -= least[name]
    return taken


# ── Partitions ────────────────────────────────────────────────────────────────────────────────


def partition_count(ranges: Sequence[OffsetRange], cut: Partitioning) -> int:
    """Into how many partitions ranges are cut."""
    rows = sum(one.end - one.begin for one in ranges)
    cost = rows + ROWS_PER_RANGE * len(ranges)
    count = cut.min_partitions or min(cut.cores, -(-cost // ROWS_PER_TASK))
    if cut.max_rows:
        count = max(count, -(-rows // cut.max_rows))
    return max(1, min(count, rows))


def split(ranges: Sequence[OffsetRange], cut: Partitioning) -> list[list[OffsetRange]]:
    """Cut ranges into partitions of as many rows each, to within one."""
    rows = sum(one.end - one.begin for one in ranges)
    if not rows:
        return []
    count = partition_count(ranges, cut)
    edges = [rows * place // count for place in range(count + 1)]
    pieces = _RangeCutter(ranges)
    return [list(pieces.take(end - start)) for start, end in pairwise(edges)]


class _RangeCutter:
    """Ranges one behind the other, from which rows are taken at the front."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        self._rest = iter(ranges)
        self._current: OffsetRange | None = None

    def take(self, rows: int) -> Iterator[OffsetRange]:
        while rows:
            current = self._current or next(self._rest)
            middle = min(current.begin + rows, current.end)
            yield current._replace(end=middle)
            rows -= middle - current.begin
            self._current = current._replace(begin=middle) if middle < current.end else None


# ── Loss ──────────────────────────────────────────────────────────────────────────────────────


def clamp(
    ranges: Sequence[OffsetRange], has: Mapping[str, TopicState]
) -> tuple[list[OffsetRange], list[Loss]]:
    """What of ranges the broker still has, and what it has not."""
    left, losses = [], []
    for one in ranges:
        topic = has.get(one.topic)
        if topic is None or topic.incarnation != one.incarnation:
            reason = "deleted" if topic is None else "made anew"
            losses.append(Loss(*one, reason))
            continue
        begin = min(max(one.begin, topic.first), one.end)
        end = max(min(one.end, topic.end), begin)
        if one.begin < begin:
            losses.append(Loss(one.topic, one.incarnation, one.begin, begin, "removed"))
        if end < one.end:
            losses.append(Loss(one.topic, one.incarnation, end, one.end, "cut back"))
        if begin < end:
            left.append(one._replace(begin=begin, end=end))
    return left, losses


def with_deleted_ends(
    start: StreamPosition, end: StreamPosition, last: Mapping[str, TopicState]
) -> StreamPosition:
    """Note in the end of a batch where topics ended that have gone since its start.

    ``last`` is how we have seen topics at last, before they went. It belongs into the log: if the
    batch runs again, nobody remembers, and a topic that was read to its end would count as lost.
    """
    gone = {}
    for name, spot in start.topics.items():
        now, known = end.topics.get(name), last.get(name)
        has_gone = now is None or now.incarnation != spot.incarnation
        if has_gone and known is not None and known.incarnation == spot.incarnation:
            gone[name] = known.end
    return StreamPosition(end.topics, end.cut, end.is_initial, gone)


def lost_with_topics(start: StreamPosition, end: StreamPosition) -> list[Loss]:
    """What was lost with topics that are not in the end any more, are others now, or go back.

    The end says where they ended when they were seen last: if all of that was read, nothing was
    lost. What was not seen counts as lost.
    """
    losses = []
    for name, spot in start.topics.items():
        now = end.topics.get(name)
        if now is not None and now.incarnation == spot.incarnation:
            if now.next < spot.next:
                losses.append(Loss(name, spot.incarnation, now.next, spot.next, "cut back"))
            continue
        known_end = end.gone.get(name)
        if known_end is None or known_end > spot.next:
            reason = "deleted" if now is None else "made anew"
            losses.append(Loss(name, spot.incarnation, spot.next, known_end, reason))
    return losses
