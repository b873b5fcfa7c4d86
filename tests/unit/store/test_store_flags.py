"""Flags and schedules without payloads: what a queue must know of a backlog."""

from penstock.model.message import Extras
from penstock.store.batch import Batch


def commit(store, *runs):
    batch = Batch()
    for payloads, time_ms, flags, *extras in runs:
        batch.append(b"a", payloads, time_ms, flags, *extras)
    store.commit(batch)


def test_messages_that_differ_in_time_only_are_one_run(store):
    commit(store, ([b"1", b"2"], 5, 1), ([b"3"], 6, 1))
    commit(store, ([b"4"], 7, 1), ([b"5"], 7, 0x331))
    marks = store.read_flags(b"a", 0, 100)
    assert marks.runs == [(0, 4, 1), (4, 1, 0x331)]
    assert marks.next_offset == 5


def test_a_run_is_cut_where_reading_begins(store):
    commit(store, ([b"1", b"2"], 5, 1), ([b"3"], 6, 2))
    assert store.read_flags(b"a", 1, 100).runs == [(1, 1, 1), (2, 1, 2)]


def test_schedules_are_by_offset(store):
    commit(store, ([b"1"], 5, 1))
    commit(store, ([b"2", b"3"], 5, 1, [Extras(due_ms=7), Extras(expires_ms=9)]))
    assert store.read_flags(b"a", 0, 100).schedule == {1: (7, 0), 2: (0, 9)}
    assert store.read_flags(b"a", 2, 100).schedule == {2: (0, 9)}


def test_reading_stops_with_the_commit_in_which_there_is_enough(store):
    for number in range(4):
        commit(store, ([b"x"] * 3, number, number))
    marks = store.read_flags(b"a", 1, 4)
    assert marks.runs == [(1, 2, 0), (3, 3, 1)]
    assert marks.next_offset == 6
    assert store.read_flags(b"a", 6, 0).next_offset == 9


def test_what_was_deleted_has_no_marks(store):
    commit(store, ([b"x"] * 6, 5, 1, [Extras(due_ms=8)] * 6))
    store.trim(b"a", 1)
    store.delete(b"a", [3, 5])
    marks = store.read_flags(b"a", 0, 100)
    assert marks.runs == [(1, 2, 1), (4, 1, 1)]
    assert sorted(marks.schedule) == [1, 2, 4]
    assert marks.next_offset == 6


def test_at_the_end_and_of_an_unknown_topic_there_is_nothing(store):
    commit(store, ([b"x"], 5, 1))
    end = store.read_flags(b"a", 1, 100)
    assert (end.next_offset, end.runs) == (1, [])
    unknown = store.read_flags(b"b", 0, 100)
    assert (unknown.next_offset, unknown.runs, unknown.schedule) == (0, [], {})
