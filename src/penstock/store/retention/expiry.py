"""Limits by age that topics share: one cursor per age, over blocks and then over the tail.

A place (a block, an entry) all of whose messages are old loses the groups of all topics with that
age, by its directory alone, and the cursor passes it. The cursor stays at the first place that is
partly young: there each topic is looked at by itself. A block that stays so for long is looked at
again after a fiftieth of the age.

The cursor also stays at messages that may be needed. It does not wait for topics that are held:
when more of such a topic was consumed it is examined on its own. Nor does it wait for groups that a
wrong clock dated: they go with an old group behind them.
"""

from functools import partial

from penstock.errors import StorageDamaged
from penstock.store.retention.excess import AGE_STEPS, remove_excess
from penstock.store.retention.group_removal import Judgement, Verdict, remove_groups, topic_state
from penstock.store.retention.places import Place, places
from penstock.store.retention.slice import AgeCursor, PlaceCursor, RetentionSlice, TopicLeft
from penstock.store.store import CLOCK_ERROR_MS_MAX

EXPIRED_GROUPS = 1_024  # in one slice, for each age


def expire(work: RetentionSlice, age: int, cursor: AgeCursor) -> AgeCursor:
    """Remove what is older than an age; return where to go on."""
    work.begin_stage(EXPIRED_GROUPS)
    now_ms = work.request.now_ms
    for place in places(work, cursor.place.entry_index):
        first = cursor.place.within(place.first_index, place.block_number)
        if now_ms + CLOCK_ERROR_MS_MAX >= place.oldest_ms > now_ms - age:
            if _is_alive(work, place):
                return cursor  # young as a whole
            cursor = AgeCursor(PlaceCursor(place.last_index + 1))
            continue
        is_mixed = not _is_past(work, age, place)
        if is_mixed and place.block_number is not None and not first and now_ms < cursor.again_ms:
            return cursor
        if work.steps <= 0:
            work.removed.more = True
            return cursor
        try:
            reached = remove_groups(work, place, first, _judgement(work, age, place))
        except StorageDamaged as error:
            work.parts.blocks.damage.report(error)
            reached, is_mixed = place.group_count, False  # what it has goes with the block
        if reached < place.group_count:
            there = PlaceCursor(place.first_index, reached, place.block_number)
            return AgeCursor(there, cursor.again_ms)
        if is_mixed and _has_young(work, age, place):
            return AgeCursor(PlaceCursor(place.first_index), now_ms + age // AGE_STEPS)
        cursor = AgeCursor(PlaceCursor(place.last_index + 1))
    return cursor


def _is_alive(work: RetentionSlice, place: Place) -> bool:
    """Whether a place has any topic that was not dropped; the first one tells, as a rule.

    One that is damaged may have some: it goes when it is old.
    """
    try:
        return any(
            topic_state(work, place, number, topic_id) is not None
            for number, topic_id, *_ in place.extents(0, place.group_count)
        )
    except StorageDamaged as error:
        work.parts.blocks.damage.report(error)
        return True


def _is_past(work: RetentionSlice, age: int, place: Place) -> bool:
    """Whether nothing in a place is young or needed."""
    request = work.request
    return place.newest_ms <= request.now_ms - age and place.end_sequence <= request.floor_sequence


def _has_young(work: RetentionSlice, age: int, place: Place) -> bool:
    """Whether the cursor must come back to a place; a wrong clock is no reason."""
    request = work.request
    if place.end_sequence > request.floor_sequence:
        return True
    young = range(request.now_ms - age + 1, request.now_ms + CLOCK_ERROR_MS_MAX + 1)
    return any(time_ms in young for time_ms in place.newest())


def _judgement(work: RetentionSlice, age: int, place: Place) -> Judgement:
    request, is_past = work.request, _is_past(work, age, place)

    def of_topic(name: bytes) -> Verdict:
        if request.rules.shared_age(name) != age:
            return Verdict.KEEP
        return Verdict.REMOVE if is_past and request.floor(name) is None else Verdict.LOOK

    return Judgement(of_topic, partial(_look, age=age))


def _look(work: RetentionSlice, topic: TopicLeft, _end: int, *, age: int) -> bool:
    return remove_excess(work, topic, age)
