"""The total: the oldest blocks lose everything but what is kept or spared, until enough is free.

Nothing of the tail is removed: it is folded first. A block that keeps some topics is mostly dead
afterwards, and is folded again elsewhere; until then it counts with what lives in it. A block
that is damaged goes as a whole.
"""

from penstock.errors import StorageDamaged
from penstock.store.blocks.registry import BlockRow
from penstock.store.retention.group_removal import Judgement, Verdict, remove_groups
from penstock.store.retention.places import BlockPlace, block_places
from penstock.store.retention.slice import PlaceCursor, RetentionSlice, TopicLeft

# groups that one slice removes for the total: some milliseconds, while a commit waits
SHRINK_GROUPS = 2_048


def shrink(work: RetentionSlice, file_bytes: int, cursor: PlaceCursor) -> PlaceCursor:
    """Remove the oldest while there are more bytes in files; return where to go on."""
    work.begin_stage(SHRINK_GROUPS)
    protected = work.request.protected
    prefixes = protected.kept + protected.spared

    def of_topic(name: bytes) -> Verdict:
        return Verdict.KEEP if name.startswith(prefixes) else Verdict.REMOVE

    judgement = Judgement(of_topic, _cut_through)
    for place in block_places(work, cursor.entry_index):
        first = cursor.within(place.first_index, place.block_number)
        if not first and _file_bytes(work) <= file_bytes:
            return cursor
        if work.steps <= 0:
            work.removed.more = True
            return cursor
        try:
            reached = remove_groups(work, place, first, judgement)
        except StorageDamaged as error:
            reached = _give_up(work, place, error)
        if reached < place.group_count:
            return PlaceCursor(place.first_index, reached, place.block_number)
        cursor = PlaceCursor(place.last_index + 1)
    return cursor


def _give_up(work: RetentionSlice, place: BlockPlace, error: StorageDamaged) -> int:
    """Remove a block that cannot be read; its topics go on with what comes after it."""
    work.parts.blocks.damage.report(error)
    for each in work.blocks.blocks:
        if each.row.summary.number == place.block_number:
            row = work.row(each)
            left = row.summary.count - row.dead_messages
            work.note_dead(row.summary.number, left, row.summary.payload_bytes - row.dead_bytes)
    return place.group_count


def _cut_through(work: RetentionSlice, topic: TopicLeft, end: int) -> bool:
    """Remove a topic's messages up to the end of a group, whatever they are."""
    count_max = max(work.steps, 1)
    groups = work.groups(topic, count_max)
    work.cut(topic, topic.deleted.skip(end), groups)
    return topic.state.first_offset >= end


def _file_bytes(work: RetentionSlice) -> int:
    return sum(bytes_left(work.row(each)) for each in work.blocks.blocks)


def bytes_left(row: BlockRow) -> int:
    """What a block takes, or will take once it is folded again."""
    summary, living = row.summary, row.summary.count - row.dead_messages
    is_rewritten = 2 * living < summary.count
    return summary.file_bytes * living // summary.count if is_rewritten else summary.file_bytes
