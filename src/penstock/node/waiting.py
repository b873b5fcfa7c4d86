"""What waits in a group: read from the journal when somebody looks.

A dispatcher keeps the priorities of a topic while it has workers, and only from where they are. A
group without workers is where people look most. So this reads the flags of the messages anew, off
the event loop, and as many as somebody wants to wait for.
"""

from penstock.admin.view import Depth, WaitingView
from penstock.core.groups import Group
from penstock.core.priority_offsets import PRIORITIES
from penstock.model.message import FLAG_PRIORITY, PRIORITY_SHIFT
from penstock.store.store import Store

FLAGS_AT_ONCE = 8_192
NEXT_SHOWN = 20


def waiting_of(store: Store, group: Group, first: int, count_max: int, now_ms: int) -> WaitingView:
    """Look at up to ``count_max`` messages that a group was never given. Reads the disk."""
    heads = [max(head, first) for head in group.heads]
    counts, not_due = [0] * PRIORITIES, [0] * PRIORITIES
    due: list[list[int]] = [[] for _ in range(PRIORITIES)]  # the first few of each priority
    start, looked_at = min(heads), 0
    while looked_at < count_max:
        found = store.read_flags(group.topic, start, min(FLAGS_AT_ONCE, count_max - looked_at))
        for offset, count, flags in found.runs:
            priority = (flags & FLAG_PRIORITY) >> PRIORITY_SHIFT
            looked_at += count
            waiting = range(max(offset, heads[priority]), offset + count)
            times = [found.schedule.get(o, (0, 0)) for o in waiting] if found.schedule else ()
            late = {o for o, (_, end) in zip(waiting, times, strict=False) if 0 < end <= now_ms}
            early = {o for o, (at, _) in zip(waiting, times, strict=False) if at > now_ms}
            counts[priority] += len(waiting) - len(late)
            not_due[priority] += len(early - late)
            room = NEXT_SHOWN - len(due[priority])
            if room > 0:
                ready = (o for o in waiting if o not in late and o not in early)
                due[priority] += [o for _, o in zip(range(room), ready, strict=False)]
        if not found.runs or found.next_offset <= start:
            break
        start = found.next_offset
    end = store.topic(group.topic)
    is_complete = end is None or start >= end.next_offset
    depths = [Depth(counts[p], not_due[p], due[p][0] if due[p] else -1) for p in range(PRIORITIES)]
    order = [(offset, p) for p in reversed(range(PRIORITIES)) for offset in due[p]]
    return WaitingView(depths, order[:NEXT_SHOWN], looked_at, is_complete)
