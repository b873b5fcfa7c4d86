"""Ids of stream entries: which places they mean."""

import pytest

from penstock.doors.resp.faults import CommandError
from penstock.doors.resp.streams import ids
from penstock.doors.resp.streams.ids import BEGINNING, END, Position
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore


def test_an_id_with_both_parts_is_looked_up_by_both():
    assert ids.start(b"123-7") == Position(7, 123)
    assert ids.range_end(b"123-7") == ids.after(b"123-7") == Position(7, 123, is_behind=True)
    assert ids.entry_ids([b"123-7", b"0-0"]) == [(123, 7), (0, 0)]


def test_a_bracket_leaves_the_entry_out():
    assert ids.start(b"(123-7") == Position(7, 123, is_behind=True)
    assert ids.range_end(b"(123-7") == Position(7, 123)


def test_everything_lies_behind_0_0_also_the_entry_with_offset_0():
    assert ids.after(b"0-0") == ids.after(b"0") == ids.start(b"(0-0") == BEGINNING
    assert ids.after(b"123-0") == Position(0, 123, is_behind=True)


def test_the_ends_of_a_stream_have_signs():
    assert ids.start(b"-") == ids.range_end(b"-") == BEGINNING
    assert ids.start(b"+") == ids.range_end(b"+") == END


def test_the_greatest_id_of_all_lies_behind_every_entry():
    assert ids.after(b"1-18446744073709551615").resolve(filled(1, 1), b"t") == 2
    assert ids.range_end(b"18446744073709551615").resolve(filled(1, 1), b"t") == 2


def test_a_time_alone_names_its_first_entry():
    assert ids.entry_ids([b"123"]) == [(123, 0)]


def filled(*times):
    """A store with a message for each time."""
    store = MemoryStore()
    for time_ms in times:
        batch = Batch()
        batch.append(b"t", [b"x"], time_ms, 1)
        store.commit(batch)
    return store


def test_a_time_is_looked_up():
    store = filled(100, 100, 200)
    places = {
        ids.start(b"100"): 0,
        ids.start(b"101"): 2,
        ids.range_end(b"100"): 2,
        ids.after(b"200"): 2,
        ids.after(b"201"): 3,
    }
    assert {place: place.resolve(store, b"t") for place in places} == places


@pytest.mark.parametrize("text", [b"", b"x", b"1-", b"-1", b"1-x", b"1-2-3", b"+1", b"1 ", b"\xb2"])
def test_anything_else_is_refused(text):
    with pytest.raises(CommandError, match="Invalid stream ID"):
        ids.start(text)


def test_numbers_beyond_64_bits_are_refused():
    for text in (b"18446744073709551616", b"1-18446744073709551616", b"9" * 5_000):
        with pytest.raises(CommandError, match="Invalid stream ID"):
            ids.after(text)
