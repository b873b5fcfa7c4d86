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


def test_messages_are_kept_as_they_arrive_and_topics_are_numbers():
    batch = Batch()
    for topic, payload in [(b"b", b"1"), (b"a", b"2"), (b"b", b"3")]:
        batch.append(topic, [payload], 5, 0)
    assert batch.topics == {b"b": 0, b"a": 1}
    assert batch.payloads == [b"1", b"2", b"3"]
    assert batch.group_messages == [2, 1]
    assert list(batch.each_run()) == [(0, 0, 1, 5, 0), (1, 1, 1, 5, 0), (2, 0, 1, 5, 0)]
    assert (batch.messages_of(b"b"), batch.messages_of(b"c")) == (2, 0)


@pytest.mark.parametrize("topics", [[b"a"] * 9, [b"a", b"b"] * 5, [b"a", b"a", b"a", b"b"] * 3, []])
def test_messages_appended_each_with_its_topic_are_as_one_by_one(topics):
    each, alone = Batch(), Batch()
    payloads = [b"%d" % number for number in range(len(topics))]
    for batch in (each, alone):
        batch.append(b"b", [b"before"], 5, 0)
    assert each.append_each(topics, payloads, 5, 0) == 1
    for topic, payload in zip(topics, payloads, strict=True):
        alone.append(topic, [payload], 5, 0)
    for batch in (each, alone):
        batch.append(b"b", [b"behind"], 5, 0)
    assert (each.count, each.payload_bytes) == (alone.count, alone.payload_bytes)
    assert (each.topics, each.group_messages) == (alone.topics, alone.group_messages)
    assert each.payloads == alone.payloads
    assert arrivals(each) == arrivals(alone)


def arrivals(batch):
    """Topic, time and flags of each message."""
    return [run[1:2] + run[3:] for run in batch.each_run() for _ in range(run[2])]


@pytest.mark.parametrize("topics", [1, 2, 20])
def test_a_topic_is_the_same_picked_out_alone_as_among_all(topics):
    batch = Batch()
    for number in range(40):
        batch.append(b"%d" % (number % topics), [b"x%d" % number] * (number % 3 + 1), number, 0)
        batch.append(b"%d" % (number % topics), [b"y%d" % number], number, 1)
    for topic in batch.topics:
        alone, among = batch.group(topic), batch.groups[topic]
        assert (alone.payloads, alone.runs) == (among.payloads, among.runs)
    assert batch.group(b"other") is None


def test_groups_grow_with_the_batch():
    batch = Batch()
    batch.append(b"a", [b"1"], 5, 0)
    assert batch.groups[b"a"].payloads == batch.group(b"a").payloads == [b"1"]
    batch.append(b"b", [b"2"], 5, 0)
    batch.append(b"a", [b"3"], 6, 0)
    assert batch.groups[b"a"].payloads == batch.group(b"a").payloads == [b"1", b"3"]
    assert batch.groups[b"a"].runs == [0, 1, 5, 0, 2, 1, 6, 0]


def test_a_batch_that_absorbs_another_has_its_messages_after_its_own():
    batch, other = Batch(), Batch()
    batch.append(b"a", [b"1"], 5, 0)
    for topic, payload in [(b"b", b"2"), (b"a", b"3"), (b"b", b"4")]:
        other.append(topic, [payload], 5, 0, [Extras(due_ms=9)] if topic == b"b" else None)
    other.add_producer_run(b"a", 0, 1, b"p", 7)
    batch.absorb(other)
    assert batch.groups[b"a"].runs == [0, 1, 5, 0, 2, 1, 5, 0]
    assert batch.groups[b"b"].payloads == [b"2", b"4"]
    assert batch.extras == {b"b": {0: Extras(due_ms=9), 1: Extras(due_ms=9)}}
    assert batch.producers == {b"a": [(1, 1, b"p", 7)]}


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
