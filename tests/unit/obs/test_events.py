"""The ring of recorded reasons: what is counted together, what is kept, in which order."""

import sys
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.obs.events import (
    CONNECTED,
    DROPPED,
    ENDED,
    ENDS_KEPT,
    EVENTS_KEPT,
    NEW_PER_SECOND_MAX,
    Event,
    Events,
)


class Time:
    def __init__(self, ms=1_000_000):
        self.ms = ms

    def __call__(self):
        return self.ms


def ring(kept=64):
    time = Time()
    return Events(time, kept), time


def test_what_is_alike_within_a_second_is_one_record_with_a_count():
    events, _ = ring()
    for sequence in range(41, 141):
        events.note(DROPPED, "queue_full_oldest", b"pump-8", b"a/b", sequences=(sequence, sequence))
    (one,) = events.newest()
    assert (one.count, one.sequence, one.last_sequence, one.topic) == (100, 41, 140, b"a/b")


def test_a_new_second_begins_a_new_record():
    events, time = ring()
    events.note(DROPPED, "expired", b"c")
    time.ms += 1_000
    events.note(DROPPED, "expired", b"c")
    assert [event.ms for event in events.newest()] == [1_001_000, 1_000_000]


def test_a_record_of_several_topics_names_none():
    events, _ = ring()
    events.note(DROPPED, "slow_reader", b"c", b"a")
    events.note(DROPPED, "slow_reader", b"c", b"b")
    assert [event.topic for event in events.newest()] == [b""]


def test_a_storm_of_made_up_names_takes_a_bounded_part_of_the_ring():
    events, _ = ring(10_000)
    events.note(ENDED, "connection_lost", b"mine")
    for number in range(5_000):
        events.note("refused", "bad_credentials", b"made-up-%d" % number)
    assert len(events) == 1 + NEW_PER_SECOND_MAX + 1
    newest = next(events.newest())
    assert (newest.client, newest.count) == (b"", 5_000 - NEW_PER_SECOND_MAX)
    assert events.find(1, client=b"mine")


def test_the_last_end_of_a_client_outlives_the_ring():
    events, time = ring(8)
    events.ended("keep_alive_timeout", b"pump-7", user="", peer="10.0.0.1:5", detail="")
    for _ in range(20):
        time.ms += 1_000
        events.note(DROPPED, "expired", b"other")
    assert not events.find(1, client=b"pump-7")
    assert events.ends[b"pump-7"].reason == "keep_alive_timeout"


def test_the_ends_that_are_kept_are_bounded():
    events, time = ring(8)
    for number in range(ENDS_KEPT + 10):
        time.ms += 1
        events.ended("connection_lost", b"%d" % number, user="", peer="", detail="")
    assert len(events.ends) <= ENDS_KEPT


def test_long_names_and_words_are_cut():
    events, _ = ring()
    number = events.note(DROPPED, "expired", b"c" * 60_000, b"t" * 60_000, detail="d" * 60_000)
    event = events.at(number)
    assert (len(event.client), len(event.topic), len(event.detail)) == (256, 256, 160)


def test_a_page_goes_on_where_the_last_one_ended():
    events, time = ring()
    for number in range(10):
        time.ms += 1_000
        events.note(DROPPED, "expired", b"%d" % number)
    first = events.find(4)
    rest = events.find(100, is_before=lambda event: event.number < first[-1].number)
    assert [event.client for event in first + rest] == [b"%d" % n for n in range(9, -1, -1)]


def test_who_came_twice_in_a_second_leaves_others_that_came_alike_as_they_are():
    events, time = ring()
    for client in b"a", b"b", b"a":
        events.note(CONNECTED, "", client, peer="10.0.0.1:5", detail="mqtt")
    time.ms += 1_000
    events.note(CONNECTED, "", b"a", peer="10.0.0.1:6", detail="mqtt")
    seen = [(event.client, event.peer[-1], event.count) for event in events.newest()]
    assert seen == [(b"a", "6", 1), (b"b", "5", 1), (b"a", "5", 2)]


def test_the_arrival_of_a_client_takes_few_bytes():
    events, time = ring(EVENTS_KEPT)
    clients = [b"device-%d" % number for number in range(20_000)]
    peers = [f"10.0.0.1:{number}" for number in range(20_000)]
    tracemalloc.start()
    for client, peer in zip(clients, peers, strict=True):
        time.ms += 1
        events.note(CONNECTED, "", client, peer=peer, detail="mqtt")
    time.ms += 1_000
    events.turn()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used / len(clients) < 40


@pytest.fixture
def _restless():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_restless")
def test_a_reader_in_a_thread_sees_each_record_as_it_was_written():
    events, time = ring(50)
    written = threading.Event()

    def write():
        for number in range(20_000):
            time.ms += 1_000
            name = b"%d" % number
            events.note(DROPPED, "expired", name, name, peer=str(number), detail=str(number))
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not written.is_set():
        seen = list(events.newest())
        numbers = [event.number for event in seen]
        assert numbers == sorted(set(numbers), reverse=True)
        for event in seen:
            word = str(event.number)
            assert (event.client, event.topic) == (word.encode(), word.encode())
            assert (event.peer, event.detail, event.ms) == (
                word,
                word,
                1_001_000 + 1_000 * int(word),
            )
    writer.join()


def test_an_unused_ring_takes_no_memory_and_a_full_one_twenty_megabytes_at_most():
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    time = Time()
    events = Events(time)
    idle = tracemalloc.get_traced_memory()[0] - before
    for number in range(EVENTS_KEPT):
        time.ms += 1_000
        client, topic = b"device-%d" % number, b"plant/p%d/temperature" % number
        events.note(DROPPED, "queue_full_oldest", client, topic, detail=f"limit {number}")
    full = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert idle < 4_096
    assert full < 26 << 20, full


NOTES = st.lists(
    st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.sampled_from(["x", "y"]), st.integers(0, 900))
)


@given(NOTES, st.integers(1, 12))
def test_the_ring_is_the_end_of_the_list_of_all_that_differ(notes, kept):
    """The model: a list that is never cut, where alike neighbours of a second are counted."""
    time = Time()
    events = Events(time, kept)
    model = []
    for client, reason, later in notes:
        time.ms += later
        alike = [m for m in model if m[0] == (client, reason) and m[1] // 1000 == time.ms // 1000]
        if alike:
            alike[0][2] += 1
        else:
            model.append([(client, reason), time.ms, 1])
        events.note(DROPPED, reason, client)
    seen = [[(event.client, event.reason), event.ms, event.count] for event in events.newest()]
    assert seen == model[::-1][:kept]
    assert [e.number for e in events.newest()] == sorted(
        (e.number for e in events.newest()), reverse=True
    )
    assert list(events.since(0, 1_000)) == list(events.newest())[::-1]


WORDS = st.text(max_size=3)
NAMES = st.binary(max_size=3)
FACTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([CONNECTED, DROPPED]),
        "reason": st.sampled_from(["", "expired"]),
        "client": NAMES,
        "topic": NAMES,
        "group": NAMES,
        "count": st.integers(1, 3),
        "offset": st.integers(-1, 1),
        "sequences": st.sampled_from([(0, 0), (3, 5)]),
        "user": WORDS,
        "peer": WORDS,
        "detail": WORDS,
        "is_everywhere": st.booleans(),
    }
)


@given(st.lists(FACTS, max_size=20))
def test_what_is_recorded_is_what_is_read(noted):
    events, time = ring()
    for facts in noted:
        time.ms += 1_000
        events.note(**facts)
    for event, facts in zip(events.newest(), reversed(noted), strict=True):
        first, last = facts["sequences"]
        rest = {name: value for name, value in facts.items() if name != "sequences"}
        assert event == Event(event.number, event.ms, sequence=first, last_sequence=last, **rest)
