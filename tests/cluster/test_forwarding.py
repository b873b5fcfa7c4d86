"""Whose batch comes next, and which were there before: decided without any node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.applier import commit_of, parts
from penstock.cluster.forwarding import (
    ENTRY_BYTES_TARGET,
    ProposalQueue,
    QueuedBatch,
    TailState,
    choose,
    is_repetition,
    merge,
    refusal,
)
from penstock.cluster.frames import FORWARD_BYTES_MAX, RefusalReason
from penstock.model.message import OWN_PRODUCERS
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.segments import batch_of, pack_batch
from penstock.store.store import LogEntry, Write
from tests.cluster.cluster_bench import batch_of as batch_with


def candidate(
    node: int = 1, number: int = 1, *, incarnation: int = 1, size: int = 10, term: int = 0
):
    return QueuedBatch(node, incarnation, number, bytes(size), term)


@pytest.mark.parametrize(
    ("incarnation", "number", "is_there"),
    [(3, 7, True), (3, 6, True), (3, 8, False), (2, 99, True), (4, 1, False)],
)
def test_a_batch_is_a_repetition_unless_it_is_beyond_the_last_one(
    incarnation, number, is_there
) -> None:
    assert is_repetition({5: (3, 7)}, 5, incarnation, number) == is_there


def test_a_node_of_which_nothing_is_in_the_log_repeats_nothing() -> None:
    assert not is_repetition({5: (3, 7)}, 6, 1, 1)


@given(st.lists(st.integers(0, 2 * ENTRY_BYTES_TARGET), max_size=8))
def test_the_first_always_goes_and_others_only_if_they_fit(sizes: list[int]) -> None:
    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

    count = choose([Sized(size) for size in sizes])
    assert (count > 0) == bool(sizes)
    assert count <= 1 or sum(sizes[:count]) <= ENTRY_BYTES_TARGET
    assert count == len(sizes) or sum(sizes[: count + 1]) > ENTRY_BYTES_TARGET


def test_leader_only_content_is_refused_in_every_other_term() -> None:
    assert refusal(candidate(term=3), 3) is None
    assert refusal(candidate(term=3), 4) is RefusalReason.LEADERSHIP_LOST
    assert refusal(candidate(), 4) is None


def test_a_batch_beyond_the_bound_is_refused() -> None:
    assert refusal(candidate(size=FORWARD_BYTES_MAX), 1) is None
    assert refusal(candidate(size=FORWARD_BYTES_MAX + 1), 1) is RefusalReason.TOO_LARGE


def test_a_later_batch_of_a_node_takes_the_place_of_an_earlier_one() -> None:
    queue = ProposalQueue()
    assert queue.add(candidate(1, 1))
    assert queue.add(candidate(2, 5))
    assert not queue.add(candidate(2, 5))
    assert not queue.add(candidate(2, 4))
    assert queue.add(candidate(1, 2))
    assert queue.add(candidate(2, 1, incarnation=2))
    assert [(c.node, c.incarnation, c.number) for c in queue.next({})] == [(1, 1, 2), (2, 2, 1)]


def test_what_is_in_the_log_or_never_will_be_leaves_the_line() -> None:
    queue = ProposalQueue()
    for entry in (
        candidate(1, 1),
        candidate(2, 1, term=3),
        candidate(3, 1),
        candidate(4, 1, term=3),
    ):
        queue.add(entry)
    repeated, refused = queue.settle({1: (1, 1), 4: (1, 1)}, 4)
    assert [c.node for c in repeated] == [1, 4]
    assert [(c.node, reason) for c, reason in refused] == [(2, RefusalReason.LEADERSHIP_LOST)]
    assert [c.node for c in queue.next({})] == [3]


def test_what_was_taken_leaves_the_line_and_what_came_in_its_place_stays() -> None:
    queue = ProposalQueue()
    first, other = candidate(1, 1), candidate(2, 1)
    queue.add(first)
    queue.add(other)
    taken = queue.next({})
    queue.add(candidate(1, 2))
    queue.remove(taken)
    assert [(c.node, c.number) for c in queue.next({})] == [(1, 2)]


def packed(node: int, *messages: tuple[bytes, bytes]) -> QueuedBatch:
    return QueuedBatch(node, 1, node, pack_batch(batch_with(*messages)))


def test_merged_batches_come_out_as_they_went_in_each_at_its_place() -> None:
    given_ = [
        QueuedBatch(1, 1, 1, batch_with((b"x", b"1"), (b"y", b"2"))),
        packed(2, (b"y", b"3"), (b"x", b"4"), (b"x", b"5")),
        packed(3, (b"z", b"6"), (b"y", b"7")),
    ]
    merged = merge(given_)
    assert merged.taken == given_
    store = MemoryStore()
    store.write(Write([LogEntry(1, 0, store.encode_batch(merged.batch).data)], committed=0))
    (entry,) = store.apply(1)
    found = []
    for span in parts(entry):
        batch = batch_of(entry, span)
        commit = commit_of(entry, span, batch)
        places = dict(zip(batch.groups, commit.first_offsets, strict=True))
        found.append((span.segment.node, commit.base_sequence, places))
    assert found == [
        (1, 1, {b"x": 0, b"y": 0}),
        (2, 3, {b"x": 1, b"y": 1}),
        (3, 6, {b"y": 2, b"z": 0}),
    ]
    own = batch_with((b"y", b"3"), (b"x", b"4"), (b"x", b"5"))
    assert commit_of(entry, parts(entry)[1], own).first_offsets == (1, 1)
    mine = batch_with((b"z", b"6"), (b"y", b"7"))
    assert commit_of(entry, parts(entry)[2], mine).first_offsets == (0, 2)


def test_a_batch_that_drops_a_topic_goes_alone() -> None:
    drop = Batch()
    drop.drop(b"x")
    plain = packed(1, (b"x", b"1"))
    dropping = QueuedBatch(2, 1, 1, pack_batch(drop))
    assert merge([plain, dropping]).taken == [plain]
    assert merge([dropping, plain]).taken == [dropping]


def test_a_damaged_batch_is_left_out_and_told() -> None:
    good = packed(1, (b"x", b"1"))
    content = pack_batch(batch_with((b"x", b"2" * 64)))
    bad = QueuedBatch(2, 1, 1, content[:-8] + b"!" + content[-7:])
    empty = QueuedBatch(3, 1, 1, b"")
    merged = merge([bad, good, empty])
    assert merged.taken == [good]
    assert merged.refused == [(bad, RefusalReason.DAMAGED), (empty, RefusalReason.DAMAGED)]


@given(st.binary(max_size=200))
def test_whatever_a_node_sends_as_a_batch_raises_nothing(content: bytes) -> None:
    merged = merge([QueuedBatch(2, 1, 1, content)])
    assert len(merged.taken) + len(merged.refused) == 1


def numbered(number: int, follows: int = 0) -> QueuedBatch:
    batch = Batch()
    batch.append(b"t", [b"m"], 1_000, 1)
    batch.add_producer_run(b"t", 0, 1, OWN_PRODUCERS + b"ann", 7)
    return QueuedBatch(2, 1, number, batch, follows=follows)


@pytest.mark.parametrize(("follows", "taken"), [(0, 0), (5, 1)], ids=["given up", "known"])
def test_a_numbered_message_waits_for_a_batch_that_its_own_node_has_given_up(
    follows: int, taken: int
) -> None:
    """The client has repeated it at this node, which does not know what became of the first."""
    earlier = merge([numbered(5)])
    tail = TailState(is_there=True, moving=earlier.moving)
    later = merge([numbered(6, follows)], tail=tail)
    assert (len(later.taken), later.must_wait) == (taken, not taken)
