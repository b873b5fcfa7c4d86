"""Freeing dropped topics: their messages in blocks count as dead, and their records go.

A record is needed until blocks contain the entry that dropped the topic: a start must not take its
groups for those of a new topic, and a fold leaves them out. Then no place but blocks has any of
them. They are counted in the transaction that deletes the record, so they are counted once.
"""

from penstock.store.keys import topic_key
from penstock.store.retention.slice import RetentionSlice


def free_dropped(work: RetentionSlice, steps: int) -> None:
    work.begin_stage(steps)
    marks = work.marks
    if marks.converted < marks.indexed:
        return  # entries of an earlier version are being converted, and must be left out there
    for topic_id, dropped in work.parts.dropped.items():
        if dropped.entry_index > marks.flushed_index:
            continue
        if not (work.step() and _free_ranges(work, topic_id)):
            return
        work.count_dropped(dropped.state)
        work.freed[topic_id] = None


def _free_ranges(work: RetentionSlice, topic_id: int) -> bool:
    """Delete a dropped topic's rows of deleted offsets; return whether that is complete."""
    database = work.parts.environment["deleted"]
    cursor = work.transaction.cursor(database)
    prefix = topic_key(topic_id)
    while cursor.set_range(prefix) and bytes(cursor.key()).startswith(prefix):
        if not work.step():
            return False
        work.transaction.delete(bytes(cursor.key()), db=database)
    return True
