"""What a batch remembers, before anything is encoded."""

import pytest

from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch


def test_positions_follow_the_order_of_arrival():
    batch = Batch()
    assert batch.append(b"a", [b"1", b"2"], 5, 0) == 0
    assert batch.append(b"b", [b"3"], 5, 0) == 2
    assert batch.append(b"a", [b"4"], 5, 0) == 3
    assert batch.count == 4
    assert batch.payload_bytes == 4


def test_a_run_goes_on_while_nothing_comes_in_between():
    batch = Batch()
    batch.append(b"a", [b"1"], 5, 1)
    batch.append(b"a", [b"2", b"3"], 5, 1)
    assert batch.groups[b"a"].runs == [0, 3, 5, 1]


def test_another_topic_time_or_flag_begins_a_run():
    batch = Batch()
    for topic, time_ms, flags in [(b"a", 5, 1), (b"b", 5, 1), (b"a", 5, 1), (b"a", 6, 1)]:
        batch.append(topic, [b"x"], time_ms, flags)
    batch.append(b"a", [b"x"], 6, 2)
    assert batch.groups[b"a"].runs == [0, 1, 5, 1, 2, 1, 5, 1, 3, 1, 6, 1, 4, 1, 6, 2]


def test_appending_nothing_changes_nothing():
    batch = Batch()
    assert batch.append(b"a", [], 5, 0) == 0
    assert batch.is_empty
    assert not batch.groups


def test_an_event_stands_after_the_messages_so_far():
    batch = Batch()
    batch.append(b"a", [b"1", b"2"], 5, 0)
    batch.add_event(("opened", b"client"))
    assert batch.events == [(2, ("opened", b"client"))]


def test_a_batch_with_anything_in_it_is_not_empty():
    event, row, mark, drop = Batch(), Batch(), Batch(), Batch()
    event.add_event(("e",))
    row.add_row("sessions", b"k", None)
    mark.checkpoint = 0
    drop.drop(b"a")
    assert not any(batch.is_empty for batch in (event, row, mark, drop))


def test_extras_are_filed_under_the_number_within_the_group():
    batch = Batch()
    headed = Extras(((b"name", b"value"),))
    batch.append(b"a", [b"1"], 5, 0)
    batch.append(b"b", [b"2"], 5, 0)
    batch.append(b"a", [b"3", b"4", b"5"], 5, 0, [None, headed, Extras()])
    assert batch.extras == {b"a": {2: headed}}
    assert batch.payload_bytes == 5 + 9


def test_a_schedule_is_filed_with_the_extras():
    batch = Batch()
    batch.append(b"a", [b"1", b"2"], 5, 0, [Extras(due_ms=7), Extras(expires_ms=8)])
    assert batch.extras == {b"a": {0: Extras(due_ms=7), 1: Extras(expires_ms=8)}}
    assert batch.payload_bytes == 2 + 2 * 20


def test_notes_of_one_producer_that_go_on_are_joined():
    batch = Batch()
    batch.append(b"a", [b"x"] * 6, 5, 0)
    batch.add_producer_run(b"a", 0, 2, b"p", 7)
    batch.add_producer_run(b"a", 2, 1, b"p", 9)
    batch.add_producer_run(b"a", 3, 1, b"p", 11)
    batch.add_producer_run(b"a", 4, 1, b"q", 12)
    batch.add_producer_run(b"b", 5, 1, b"q", 13)
    assert batch.producers == {
        b"a": [(0, 3, b"p", 7), (3, 1, b"p", 11), (4, 1, b"q", 12)],
        b"b": [(5, 1, b"q", 13)],
    }
    assert batch.payload_bytes == 6 + 4 * 21


@pytest.mark.parametrize(
    "note",
    [(1, 1, b"p", 5), (2, 0, b"p", 5), (2, 1, b"p", -1), (2, 1, b"p", 2**64)],
    ids=["noted before", "of nothing", "small seq", "large seq"],
)
def test_notes_that_do_not_fit_their_columns_are_a_bug_of_the_caller(note):
    batch = Batch()
    batch.add_producer_run(b"a", 0, 2, b"q", 0)
    with pytest.raises(AssertionError):
        batch.add_producer_run(b"a", *note)


@pytest.mark.parametrize(
    "extras",
    [
        [],
        [Extras(signature=Signature(1, 1, bytes(63)))],
        [Extras(signature=Signature(2, 1, bytes(64), 1, bytes(9)))],
        [Extras(signature=Signature(1, 2**32, bytes(64)))],
        [Extras(due_ms=-1)],
        [Extras(expires_ms=2**64)],
    ],
    ids=["too few", "short signature", "long nonce", "large key id", "before time", "too late"],
)
def test_extras_that_do_not_fit_their_columns_are_a_bug_of_the_caller(extras):
    """Detected when one publisher's message is appended, not when the shared batch is written."""
    with pytest.raises(AssertionError):
        Batch().append(b"a", [b"1"], 5, 0, extras)
