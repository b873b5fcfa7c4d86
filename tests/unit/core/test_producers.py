"""Numbered messages: what is found, what the window forgets, which rows a checkpoint writes."""

import pytest

from penstock.core import producers as module
from penstock.core.producers import CHUNK_RUNS_MAX, WINDOW, Producers

T, P = b"t", b"p"


@pytest.fixture
def producers():
    return Producers(window=10)


def scattered(producers: Producers, count: int, first: int = 0) -> None:
    """Messages of which none continues another."""
    for offset in range(first, first + count):
        producers.note(T, P, 3 * offset, offset, 1)


def take_all(producers: Producers) -> dict[bytes, bytes | None]:
    return dict(producers.take_dirty(1_000_000))


def reloaded(rows: dict[bytes, bytes | None], window: int = 10) -> Producers:
    producers = Producers(window)
    for key, row in sorted(rows.items()):
        if row is not None:
            producers.load(key, row)
    return producers


def test_a_number_is_known_by_topic_and_producer(producers):
    producers.note(T, P, 7, 0, 1)
    assert producers.find(T, P, 7) == 0
    assert producers.find(T, P, 6) is None
    assert producers.find(T, P, 8) is None
    assert producers.find(T, b"q", 7) is None
    assert producers.find(b"other", P, 7) is None


def test_a_run_gives_each_of_its_messages_an_offset(producers):
    producers.note(T, P, 100, 40, 5)
    assert [producers.find(T, P, seq) for seq in range(99, 106)] == [None, 40, 41, 42, 43, 44, None]


def test_seqs_may_come_in_any_order_with_gaps_and_from_zero(producers):
    for offset, seq in enumerate([5, 0, 2**64 - 1, 3]):
        producers.note(T, P, seq, offset, 1)
    assert [producers.find(T, P, seq) for seq in (5, 0, 2**64 - 1, 3, 4)] == [0, 1, 2, 3, None]


def test_producers_that_take_turns_do_not_mix(producers):
    for offset in range(6):
        producers.note(T, b"pq"[offset % 2 : offset % 2 + 1], offset // 2, offset, 1)
    assert [producers.find(T, b"p", seq) for seq in range(3)] == [0, 2, 4]
    assert [producers.find(T, b"q", seq) for seq in range(3)] == [1, 3, 5]


def test_the_window_is_that_of_the_specification():
    producers = Producers()
    producers.note(T, P, 1, 0, WINDOW)
    assert producers.find(T, P, 1) == 0
    producers.note(T, b"q", 1, WINDOW, 1)
    assert WINDOW == 100_000
    assert producers.find(T, P, 1) is None
    assert producers.find(T, P, 2) == 1


def test_the_window_is_shared_by_all_producers_of_a_topic_and_by_no_other_topic(producers):
    producers.note(b"other", P, 1, 0, 10)
    producers.note(T, P, 1, 0, 10)
    producers.note(T, b"q", 1, 10, 4)
    assert [producers.find(T, P, seq) for seq in (4, 5)] == [None, 4]
    assert producers.find(b"other", P, 1) == 0


def test_a_run_longer_than_the_window_leaves_its_end(producers):
    producers.note(T, P, 0, 0, 25)
    assert [producers.find(T, P, seq) for seq in (14, 15, 24)] == [None, 15, 24]


def test_after_it_was_forgotten_a_number_may_be_used_again(producers):
    producers.note(T, P, 1, 0, 1)
    producers.note(T, b"q", 1, 1, 10)
    producers.note(T, P, 1, 11, 1)
    assert producers.find(T, P, 1) == 11


def test_a_number_noted_twice_keeps_its_first_offset_and_its_age(producers):
    producers.note(T, P, 1, 0, 1)
    producers.note(T, b"q", 1, 1, 8)
    producers.note(T, P, 0, 9, 2)
    assert [producers.find(T, P, seq) for seq in (0, 1)] == [9, 0]
    producers.note(T, P, 2, 11, 1)
    assert [producers.find(T, P, seq) for seq in (0, 1, 2)] == [9, None, 11]


def test_what_replay_notes_again_changes_nothing(producers):
    producers.note(T, P, 0, 0, 10)
    take_all(producers)
    producers.note(T, P, 0, 0, 10)
    producers.note(T, b"q", 5, 3, 2)
    assert producers.dirty_count == 0
    assert producers.find(T, b"q", 5) is None


def test_of_what_replay_notes_again_the_new_part_counts(producers):
    producers.note(T, P, 0, 0, 4)
    producers.note(T, P, 0, 0, 6)
    assert [producers.find(T, P, seq) for seq in range(7)] == [0, 1, 2, 3, 4, 5, None]


def test_a_topic_that_is_forgotten_begins_anew(producers):
    producers.note(T, P, 0, 0, 5)
    producers.forget_topic(T)
    assert producers.find(T, P, 0) is None
    producers.note(T, P, 0, 0, 1)
    assert producers.find(T, P, 0) == 0
    assert producers.find(T, P, 1) is None


def test_forgetting_an_unknown_topic_is_no_change(producers):
    producers.forget_topic(T)
    assert producers.dirty_count == 0


# ── rows ──────────────────────────────────────────────────────────────────────────────────────


def test_one_more_key_in_a_full_window_writes_one_small_row():
    producers = Producers()
    scattered(producers, WINDOW)
    assert len(take_all(producers)) == -(-WINDOW // CHUNK_RUNS_MAX)
    scattered(producers, 1, first=WINDOW)
    ((_, row),) = take_all(producers).items()
    assert row is not None
    assert len(row) < 40 * CHUNK_RUNS_MAX


def test_new_keys_cost_rows_for_themselves_and_old_rows_are_deleted():
    """Ten chunks more: ten of the oldest go, and no other row is touched."""
    producers = Producers()
    scattered(producers, WINDOW)
    before = take_all(producers)
    scattered(producers, 10 * CHUNK_RUNS_MAX, first=WINDOW)
    rows = take_all(producers)
    deleted = [key for key, row in rows.items() if row is None]
    assert deleted == sorted(before)[:10]
    assert len(rows) - len(deleted) <= 11


def test_a_steady_producer_is_one_run_in_one_row():
    producers = Producers()
    for offset in range(0, 3 * WINDOW, 100):
        producers.note(T, P, offset, offset, 100)
    ((_, row),) = take_all(producers).items()
    assert row is not None
    assert len(row) < 50


def test_rows_say_all_there_is(producers):
    scattered(producers, 13)
    producers.note(b"other", b"q", 5, 2, 3)
    again = reloaded(take_all(producers))
    assert again.dirty_count == 0
    assert [again.find(T, P, 3 * offset) for offset in (2, 3, 12)] == [None, 3, 12]
    assert [again.find(b"other", b"q", seq) for seq in (4, 5, 7, 8)] == [None, 2, 4, None]


def test_after_a_start_new_rows_get_new_keys(producers):
    producers.note(T, P, 0, 0, 1)
    rows = take_all(producers)
    again = reloaded(rows)
    again.note(b"other", P, 0, 0, 1)
    assert take_all(again).keys().isdisjoint(rows)


def test_a_chunk_that_a_start_finds_goes_on_growing(producers):
    producers.note(T, P, 0, 0, 1)
    rows = take_all(producers)
    again = reloaded(rows)
    again.note(T, P, 50, 1, 1)
    assert take_all(again).keys() == rows.keys()


def test_rows_are_taken_in_order_some_at_a_time():
    producers = Producers()
    scattered(producers, 3 * CHUNK_RUNS_MAX)
    assert producers.dirty_count == 3
    first, second = producers.take_dirty(2), producers.take_dirty(2)
    keys = [key for key, _ in first + second]
    assert (len(first), len(second), producers.dirty_count) == (2, 1, 0)
    assert keys == sorted(keys)


def test_rows_that_were_not_written_come_before_all_others():
    """Else a row could be on disk without the one before it, and replay would think it there."""
    producers = Producers()
    scattered(producers, 2 * CHUNK_RUNS_MAX)
    failed = producers.take_dirty(2)
    scattered(producers, CHUNK_RUNS_MAX, first=2 * CHUNK_RUNS_MAX)
    producers.mark_dirty(key for key, _ in failed)
    keys = [key for key, _ in producers.take_dirty(9)]
    assert keys[:2] == [key for key, _ in failed]
    assert len(keys) == 3


def test_a_forgotten_topic_deletes_its_rows(producers):
    producers.note(T, P, 0, 0, 5)
    rows = take_all(producers)
    producers.forget_topic(T)
    producers.note(T, P, 0, 0, 2)
    rows |= take_all(producers)
    again = reloaded(rows)
    assert list(rows.values()).count(None) == 1
    assert [again.find(T, P, seq) for seq in (1, 2)] == [1, None]


def test_rows_of_two_lives_of_a_topic_are_all_deleted_when_replay_comes_to_the_drop(producers):
    """The commit that should have deleted the old row did not happen; the new row was there."""
    producers.note(T, P, 0, 0, 5)
    old = take_all(producers)
    producers.forget_topic(T)
    producers.note(T, P, 0, 0, 2)
    new = {key: row for key, row in take_all(producers).items() if row is not None}
    again = reloaded(old | new)
    again.forget_topic(T)
    again.note(T, P, 0, 0, 2)
    rows = old | new | take_all(again)
    assert sum(row is not None for row in rows.values()) == 1
    assert [reloaded(rows).find(T, P, seq) for seq in (0, 1, 2)] == [0, 1, None]


def test_a_name_is_kept_once_however_often_it_comes(producers):
    for offset in range(4):
        producers.note(T, bytes(bytearray(b"producer")), 5 * offset, offset, 1)
    (chunk,) = producers._chunks.values()
    assert len({id(producer) for producer in chunk._producers}) == 1


def test_a_name_is_forgotten_with_its_last_message(producers):
    for offset in range(50):
        producers.note(T, b"producer %d" % offset, 0, offset, 1)
    assert len(producers._topics[T].by_producer) == 10


def test_memory_follows_the_window(producers):
    scattered(producers, 1_000)
    assert len(producers._topics[T].by_producer[P]._seqs) <= 20
    assert len(producers._chunks) == 1


def test_new_keys_lie_behind_those_that_a_start_finds_though_older_ones_are_gone(producers):
    for topic in (b"a", b"b", b"c"):
        producers.note(topic, P, 0, 0, 1)
    for topic in (b"a", b"b"):
        producers.forget_topic(topic)
    rows = take_all(producers)
    again = reloaded(rows)
    again.note(b"d", P, 0, 0, 1)
    assert min(take_all(again)) > max(rows)


def test_a_row_of_which_nothing_is_taken_is_deleted_and_in_nobodys_way(producers, monkeypatch):
    """Two incarnations of a topic again: the middle row adds nothing to the first."""
    monkeypatch.setattr(module, "CHUNK_RUNS_MAX", 1)
    producers.note(T, P, 0, 0, 5)
    rows = take_all(producers)
    producers.forget_topic(T)
    producers.note(T, P, 0, 0, 1)
    producers.note(T, P, 10, 20, 1)
    rows |= {key: row for key, row in take_all(producers).items() if row is not None}
    again = reloaded(rows)
    assert again.take_dirty(9) == [(sorted(rows)[1], None)]
    again.note(T, b"q", 0, 30, 20)
    assert (again.find(T, P, 10), again.find(T, b"q", 19)) == (None, 49)
