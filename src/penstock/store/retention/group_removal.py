"""Removing many groups of one place: what a block, or an entry, has of thousands of topics.

Most topics are in the simplest of states: the group is their oldest, it goes as a whole, and none
of their messages was deleted. For these nothing is done but what must be; at all others somebody
takes a *look*.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from penstock.store.dropped import Dropped
from penstock.store.retention.places import Extent, Place
from penstock.store.retention.slice import RetentionSlice, TopicLeft
from penstock.store.topics import StoredTopic

LOOK_STEPS = 8  # what a look costs, compared with a simple group


class Verdict(IntEnum):
    """What happens to a topic's group."""

    KEEP = 0
    REMOVE = 1
    LOOK = 2


KEEP, REMOVE = Verdict.KEEP, Verdict.REMOVE


class Judgement(NamedTuple):
    """What happens to the groups of a place.

    ``look`` removes what may go of a topic, up to the offset where its group ends, and returns
    whether that is complete.
    """

    of_topic: Callable[[bytes], Verdict]
    look: Callable[[RetentionSlice, TopicLeft, int], bool]


def remove_groups(work: RetentionSlice, place: Place, first: int, judgement: Judgement) -> int:
    """Remove groups from number ``first`` on; return the number to go on with."""
    by_id, of_topic = work.parts.topics.by_id, judgement.of_topic  # the most frequent case, inline
    moved, seen, offsets = work.moved, work.seen, work.removed.offsets
    with_deleted = work.parts.topics.with_deleted
    in_tail, messages, total = place.block_number is None, 0, 0
    reached = min(first + max(work.steps, 1), place.group_count)
    for extent in place.extents(first, reached):
        number, topic_id, offset, count, size = extent
        state = by_id(topic_id) or topic_state(work, place, number, topic_id)
        if state is None:
            _pass_dropped(work, place, extent)
            continue
        end, name = offset + count, state.name
        if end <= state.first_offset:
            continue
        verdict = of_topic(name)
        if verdict is KEEP:
            continue
        is_simple = (
            verdict is REMOVE
            and state.first_offset == offset
            and topic_id not in seen
            and name not in offsets  # removed some of it before, in this slice
            and name not in with_deleted
        )
        if is_simple:
            moved[topic_id] = (state, end, state.bytes - size)
            offsets[name] = [(offset, end)]
            messages, total = messages + count, total + size
            if in_tail:
                work.cuts[topic_id] = end
        elif not _look(work, name, end, judgement):
            reached = number
            break
    if place.block_number is not None:
        work.note_dead(place.block_number, messages, total)
    work.removed.messages += messages
    work.removed.bytes += total
    work.spend(reached - first)
    work.removed.more |= reached < place.group_count
    return reached


def topic_state(
    work: RetentionSlice, place: Place, number: int, topic_id: int
) -> StoredTopic | None:
    """The state of a group's topic, as it was before the slice; None if it was dropped."""
    state = work.parts.topics.by_id(topic_id) or work.state(place.name(number))
    return state if state is not None and state.id == topic_id else None


def _look(work: RetentionSlice, name: bytes, end: int, judgement: Judgement) -> bool:
    topic = work.topic(name)
    assert topic is not None, "its state was found just now"
    if work.steps <= 0:
        return False
    work.spend(LOOK_STEPS)
    return judgement.look(work, topic, end)


def _pass_dropped(work: RetentionSlice, place: Place, extent: Extent) -> None:
    """Count a dropped topic's messages as dead up to a group, if its record still has them."""
    _, topic_id, offset, count, _ = extent
    known = work.parts.dropped.get(topic_id)
    record = work.freed.get(topic_id, known)
    if record is None or place.block_number is None or record.state.first_offset >= offset + count:
        return
    if work.marks.converted < work.marks.indexed:
        return  # a conversion may be about to bring older ones
    work.count_dropped(record.state, offset + count)
    state = record.state.copy()
    state.first_offset = offset + count
    work.freed[topic_id] = Dropped(record.entry_index, state)
