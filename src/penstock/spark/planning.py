"""Pure planning: how far the next batch reads, how it is split, and what of it is lost.

The same input gives the same partitions, so a batch that runs again reads the same rows. A limited
batch takes rows from each topic in proportion to its lag, but at least one; if there are more
topics than rows, they take turns. The ranges are joined end to end and cut into equal parts, so
50,000 small topics do not become 50,000 tasks. They are in the order of incarnations, which is that
of the journal's blocks: a task reads neighbours. Offsets that are missing *above* a topic's first
offset were deleted on purpose; those below it are lost.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from penstock.spark.offsets import (
    BY_INCARNATION,
    OffsetRange,
    Partitioning,
    StreamPosition,
    TopicPosition,
)

# fewer rows do not justify a task, which costs Spark some milliseconds
ROWS_PER_TASK: Final = 50_000
ROWS_PER_RANGE: Final = 500  # the cost of one more topic (another request), in rows


class TopicState(NamedTuple):
    """A topic as the broker has it: ``first`` is its oldest offset, ``end`` one past its newest."""

    incarnation: int
    first: int
    end: int
    messages: int = 0
    bytes: int = 0


class Loss(NamedTuple):
    """Offsets that can no longer be read, and why; ``end`` is None if it is unknown."""

    topic: str
    incarnation: int
    begin: int
    end: int | None
    reason: str


def lag_of(start: StreamPosition, seen: Mapping[str, TopicState]) -> dict[str, int]:
    spots = start.topics
    lags = {name: topic.end - next_of(spots.get(name), topic) for name, topic in seen.items()}
    return {name: lag for name, lag in lags.items() if lag > 0}


def next_of(spot: TopicPosition | None, topic: TopicState) -> int:
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
    """Return where a batch ends that takes this many offsets of each topic.

    Topics that are no longer subscribed to (``resting``) keep their position. If a topic ends
    before our position, the broker was restored from an older copy, and we move back with it.
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
    if sum(lags.values()) <= total:
        return dict(lags)
    names = sorted(lags)
    if len(names) >= total:
        return {names[(turn + step) % len(names)]: 1 for step in range(total)}
    return _proportional({name: lags[name] - 1 for name in names}, total - len(names))


def _proportional(rests: Mapping[str, int], total: int) -> dict[str, int]:
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
    names = sorted(sizes)
    least = {name: max(1, means[name]) for name in names}
    if sum(least.values()) > total:
        return _in_turn(least, total, turn)
    left, whole = total - sum(least.values()), sum(sizes.values())
    return {name: least[name] + left * sizes[name] // max(1, whole) for name in names}


def _in_turn(least: Mapping[str, int], total: int, turn: int) -> dict[str, int]:
    names = list(least)
    taken: dict[str, int] = {}
    for step in range(len(names)):
        name = names[(turn + step) % len(names)]
        if taken and least[name] > total:
            break
        taken[name] = least[name]
        total -= least[name]
    return taken


def partition_count(ranges: Sequence[OffsetRange], cut: Partitioning) -> int:
    rows = sum(one.end - one.begin for one in ranges)
    cost = rows + ROWS_PER_RANGE * len(ranges)
    count = cut.min_partitions or min(cut.cores, -(-cost // ROWS_PER_TASK))
    if cut.max_rows:
        count = max(count, -(-rows // cut.max_rows))
    return max(1, min(count, rows))


def split(ranges: Sequence[OffsetRange], cut: Partitioning) -> list[list[OffsetRange]]:
    rows = sum(one.end - one.begin for one in ranges)
    if not rows:
        return []
    count = partition_count(ranges, cut)
    if cut.order == BY_INCARNATION:
        ranges = sorted(ranges, key=attrgetter("incarnation"))
    edges = [rows * step // count for step in range(1, count + 1)]
    parts: list[list[OffsetRange]] = [[]]
    position = 0  # in all ranges, joined end to end
    for one in ranges:
        rest = one
        while rest.begin < rest.end:
            if position == edges[len(parts) - 1]:
                parts.append([])
            end = min(rest.end, rest.begin + edges[len(parts) - 1] - position)
            parts[-1].append(rest._replace(end=end))
            position += end - rest.begin
            rest = rest._replace(begin=end)
    return parts


def clamp(
    ranges: Sequence[OffsetRange], has: Mapping[str, TopicState]
) -> tuple[list[OffsetRange], list[Loss]]:
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
    """Record topics deleted since the start: a repeated batch cannot look up where they ended."""
    gone = {}
    for name, spot in start.topics.items():
        now, known = end.topics.get(name), last.get(name)
        has_gone = now is None or now.incarnation != spot.incarnation
        if has_gone and known is not None and known.incarnation == spot.incarnation:
            gone[name] = known.end
    return StreamPosition(end.topics, end.cut, end.is_initial, gone)


def lost_with_topics(start: StreamPosition, end: StreamPosition) -> list[Loss]:
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
