"""How many batches and entries may be in flight, and which: decided without any node."""

import random

from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster import flight
from penstock.cluster.flight import EntriesInFlight, EntryInFlight, FlightWindow
from penstock.cluster.forwarding import (
    WAITING_MAX,
    ProposalQueue,
    QueuedBatch,
    TailState,
    is_next,
    merge,
)
from penstock.cluster.frames import RefusalReason
from penstock.core.commands import Received, ScheduleFired, to_event
from penstock.store.batch import Batch, NodeSegment
from penstock.store.segments import pack_batch
from tests.cluster.cluster_bench import batch_of

# ── How many


def window_of(*times_s: float) -> int:
    window = FlightWindow()
    for seconds in times_s:
        window.landed(seconds)
    return window.width


def test_near_nodes_have_one_entry_in_flight_and_distant_ones_many() -> None:
    assert window_of() == 1
    assert window_of(0.0015) == 1
    assert window_of(0.0055) == 1
    assert window_of(0.0205) == 9
    assert window_of(10.0) == flight.COUNT_MAX


def test_the_shortest_time_counts_so_a_busy_machine_is_not_taken_for_a_distant_one() -> None:
    assert window_of(0.003, *[0.05] * 50) == 1
    assert window_of(0.003, *[0.0205] * 64) == 9, "the link has changed"
    assert window_of(*[0.0205] * 64, 0.003) == 1


def entry(index: int, *, size: int = 10, drops: bool = False, node: int = 1) -> EntryInFlight:
    segments = [NodeSegment(node, 1, index)]
    return EntryInFlight(index, size, 0.0, segments, drops, makes_stale=False)


def wide() -> EntriesInFlight:
    entries = EntriesInFlight()
    entries.add(entry(1))
    entries.applied(1, 1.0)
    return entries


def test_entries_in_flight_are_bounded_in_number_and_in_bytes() -> None:
    entries = wide()
    for index in range(2, flight.COUNT_MAX + 2):
        assert entries.has_room
        entries.add(entry(index))
    assert not entries.has_room
    entries.applied(2, 1.0)
    assert entries.has_room
    entries.add(entry(99, size=flight.ENTRIES_BYTES_MAX))
    entries.applied(50, 1.0)
    assert not entries.has_room
    entries.applied(99, 1.0)
    assert entries.has_room


def test_nothing_follows_an_entry_that_drops_topics() -> None:
    entries = wide()
    entries.add(entry(2, drops=True))
    assert not entries.has_room
    entries.applied(2, 1.0)
    assert entries.has_room


def test_batches_of_entries_in_flight_count_as_being_in_the_log() -> None:
    entries = wide()
    entries.add(entry(2))
    entries.add(entry(3, node=2))
    assert entries.origins({1: (1, 1), 3: (4, 4)}) == {1: (1, 2), 2: (1, 3), 3: (4, 4)}
    entries.clear()
    assert entries.origins({1: (1, 1)}) == {1: (1, 1)}


# ── Which


def queued(number: int, follows: int = 0, node: int = 1, content: bytes = b"") -> QueuedBatch:
    return QueuedBatch(node, 1, number, content, 0, follows)


def test_a_batch_waits_for_the_one_that_it_follows() -> None:
    assert is_next({}, queued(1))
    assert not is_next({1: (1, 3)}, queued(5, follows=4))
    assert is_next({1: (1, 4)}, queued(5, follows=4))
    assert is_next({1: (2, 1)}, queued(5, follows=4)), "it is a repetition anyway"


@given(st.permutations(range(1, 8)), st.sets(st.integers(1, 7)), st.randoms())
def test_whatever_is_late_lost_or_repeated_batches_are_taken_in_order_without_a_gap(
    order: list[int], lost: set[int], dice: random.Random
) -> None:
    queue, origins, taken = ProposalQueue(), {}, []
    for number in (*(n for n in order if n not in lost), *order):
        queue.add(queued(number, follows=number - 1))
        if dice.random() < 0.5:
            continue
        found = queue.next(origins)
        queue.remove(found)
        for one in found:
            taken.append(one.number)
            origins[1] = one.key
        queue.settle(origins, 1)
    while found := queue.next(origins):
        queue.remove(found)
        taken += [one.number for one in found]
        origins[1] = found[-1].key
    assert taken == list(range(1, 8))


def test_a_node_that_has_given_up_begins_anew_and_what_it_gave_up_leaves_the_queue() -> None:
    queue = ProposalQueue()
    queue.add(queued(2, follows=1))
    queue.add(queued(3, follows=2))
    assert queue.next({}) == []
    queue.add(queued(4))
    assert [one.number for one in queue.next({})] == [4]
    assert not queue.add(queued(3, follows=2)), "it comes late"
    assert len(queue) == 1


def test_a_node_cannot_fill_the_queue() -> None:
    queue = ProposalQueue()
    for number in range(2, WAITING_MAX + 10):
        queue.add(queued(number, follows=number - 1))
    assert len(queue) == WAITING_MAX


def test_what_follows_a_refused_batch_is_not_taken() -> None:
    sound = pack_batch(batch_of((b"t", b"x")))
    waiting = [
        queued(1, content=b"damaged"),
        queued(2, follows=1, content=sound),
        queued(1, node=2, content=sound),
    ]
    merged = merge(waiting)
    assert [(one.node, one.number) for one in merged.taken] == [(2, 1)]
    assert [(one.number, why) for one, why in merged.refused] == [(1, RefusalReason.DAMAGED)]


def test_a_topic_is_dropped_and_a_qos_2_publish_judged_only_when_nothing_could_change_it() -> None:
    dropping, publishing, plain = Batch(), Batch(), batch_of((b"t", b"x"))
    dropping.drop(b"t")
    publishing.add_event(to_event(Received(b"ann", [1])))
    assert not TailState().holds_up(dropping)
    assert TailState(is_there=True).holds_up(dropping)
    assert not TailState(is_there=True).holds_up(publishing)
    assert TailState(is_there=True, makes_stale=True).holds_up(publishing)
    assert not TailState(is_there=True, makes_stale=True).holds_up(plain)
    waiting = [QueuedBatch(node, 1, 1, batch) for node, batch in ((1, plain), (2, dropping))]
    merged = merge(waiting, tail=TailState(is_there=True))
    assert merged.taken == waiting[:1]
    assert merged.must_wait


def test_schedules_fire_only_when_all_that_may_have_fired_them_is_applied() -> None:
    """Two batches may make the same firing: the first was given up, and is in the log all the same."""
    fired = to_event(ScheduleFired(b"s", 1, 1_000, 1_000, 1_001, 2_000, 1, 0, 0))
    first, again = Batch(), Batch()
    first.add_event(fired)
    again.add_event(fired)
    assert TailState(is_there=True, makes_stale=True).holds_up(first)
    waiting = [QueuedBatch(node, 1, 1, batch) for node, batch in ((1, first), (2, again))]
    merged = merge(waiting)
    assert merged.taken == waiting[:1]
    assert merged.must_wait
    assert merged.makes_stale
    refused = merge(waiting[1:], is_late=lambda _batch: True).refused
    assert refused == [(waiting[1], RefusalReason.LATE)]
