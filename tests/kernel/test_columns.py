"""The compiled columns of a batch and their encoder do what the Python form does."""

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

from penstock.model.message import Extras, Signature
from penstock.store import batch as compiled_batch
from penstock.store import entry as compiled_entry

python_columns, python_batch, _, python_entry = interpreted(
    "penstock.store.message_columns",
    "penstock.store.batch",
    "penstock.store.runs",
    "penstock.store.entry",
)

TOPICS = [b"a", b"a/b", b"", b"a long name of a topic", *(b"%d" % n for n in range(12))]

topics = st.sampled_from(TOPICS).map(bytes)
payloads = st.lists(st.binary(max_size=40), max_size=4)
times = st.one_of(st.integers(0, 3), st.sampled_from([1_000, 2**33, 2**41]))
flags = st.sampled_from([0, 1, 2, 3, 255, 256, 0xFFFF])
extras = st.builds(
    Extras,
    headers=st.lists(st.tuples(st.binary(max_size=5), st.binary(max_size=5)), max_size=3).map(
        tuple
    ),
    signature=st.one_of(st.none(), st.just(Signature(1, 7, bytes(64), 5, b"nonce"))),
    due_ms=st.sampled_from([0, 9]),
    expires_ms=st.sampled_from([0, 2**40]),
)

chunks = st.binary(max_size=30)


@st.composite
def slices(draw):
    """Slices of a chunk, which may be far larger than they are."""
    chunk = draw(chunks) * draw(st.sampled_from([1, 40]))
    places = st.integers(0, len(chunk))
    found = draw(st.lists(st.tuples(topics, places, places, times, flags), min_size=1, max_size=6))
    return "slices", chunk, [(t, min(a, b), max(a, b), *rest) for t, a, b, *rest in found]


operations = st.recursive(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), topics, payloads, times, flags, st.none()),
            st.tuples(st.just("append"), topics, payloads, times, flags, extras),
            slices(),
            st.tuples(st.just("each"), st.lists(topics, max_size=6), times, flags),
            st.tuples(st.just("run"), topics, payloads, times, flags),
            st.tuples(st.just("event"), st.integers(0, 2**40)),
            st.tuples(st.just("producer"), topics, st.integers(0, 9)),
        ),
        max_size=12,
    ),
    lambda inner: st.lists(
        st.one_of(
            st.tuples(st.just("absorb"), inner),
            st.tuples(st.just("append"), topics, payloads, times, flags, st.none()),
            slices(),
        ),
        max_size=4,
    ),
    max_leaves=6,
)


def fill(batch, steps):
    for kind, *rest in steps:
        FILL[kind](batch, *rest)
    return batch


def append(batch, topic, found, time_ms, flags, one):
    each = None if one is None else [one if n % 2 == 0 else None for n in range(len(found))]
    batch.append(topic, found, time_ms, flags, each)


def append_slices(batch, chunk, places):
    for topic, start, end, time_ms, flags in places:
        position = batch.append_slice(topic, chunk, start, end, time_ms, flags)
        assert position == batch.count - 1


def append_each(batch, names, time_ms, flags):
    batch.append_each(names, [b"%d" % number for number in range(len(names))], time_ms, flags)


def add_run(batch, topic, found, time_ms, flags):
    if found:
        batch.add_run(batch.add_topic(topic), found, time_ms, flags)


def add_producer(batch, topic, seq):
    count = batch.messages_of(topic)
    if count and topic not in batch.producers:
        batch.add_producer_run(topic, 0, count, b"producer", seq)


FILL = {
    "append": append,
    "slices": append_slices,
    "each": append_each,
    "run": add_run,
    "event": lambda batch, number: batch.add_event(("event", number)),
    "producer": add_producer,
    "absorb": lambda batch, steps: batch.absorb(fill(type(batch)(), steps)),
}


def observed(batch):
    """All that users see."""
    return {
        "count": batch.count,
        "payload_bytes": batch.payload_bytes,
        "topics": list(batch.topics.items()),
        "group_messages": batch.group_messages,
        "payloads": batch.payloads,
        "between": batch.payloads_between(1, 3),
        "runs": batch.runs,
        "each_run": list(batch.each_run()),
        "groups": [(t, group.payloads, group.runs) for t, group in batch.groups.items()],
        "group": [(batch.group(t).payloads, batch.group(t).runs) for t in batch.topics],
        "messages_of": [batch.messages_of(topic) for topic in TOPICS],
        "extras": batch.extras,
        "producers": batch.producers,
        "events": batch.events,
        "is": (batch.is_empty, batch.has_content, batch.is_single),
        "first_times": batch.first_times() if batch.count else None,
    }


def encoded(entry, batch, dropped):
    ids = [7 + number for number in range(len(batch.topics))]
    offsets = [2**40 + number for number in range(len(batch.topics))]
    found = entry.encode_entry(batch, 3, 2**50, ids, offsets, dropped)
    sections = {section: bytes(content) for section, content in found.sections.items()}
    return found._replace(sections=sections)


@given(steps=operations, dropped=st.lists(st.just((4, b"dropped")), max_size=1))
def test_both_forms_of_a_batch_look_the_same_and_have_the_same_entry(steps, dropped):
    compiled = fill(compiled_batch.Batch(), steps)
    python = fill(python_batch.Batch(), steps)
    assert type(compiled).__mro__[1] is not python_columns.MessageColumns
    assert observed(compiled) == observed(python)
    assert encoded(compiled_entry, compiled, dropped) == encoded(python_entry, python, dropped)


@given(steps=operations)
def test_what_is_appended_after_somebody_looked_is_seen(steps):
    compiled, python = compiled_batch.Batch(), python_batch.Batch()
    for step in steps:
        fill(compiled, [step])
        fill(python, [step])
        assert observed(compiled) == observed(python)


def test_a_large_entry_is_the_same_in_both_forms():
    """Above the size from which on others may run meanwhile."""
    chunk = bytes(range(256)) * 256
    batches = [compiled_batch.Batch(), python_batch.Batch()]
    for batch in batches:
        for number in range(5_000):
            start = number * 13
            batch.append_slice(TOPICS[number % 11], chunk, start, start + number % 400, 5, 0)
    compiled, python = batches
    assert encoded(compiled_entry, compiled, ()) == encoded(python_entry, python, ())


def test_a_chunk_is_kept_once_for_all_slices_and_let_go_with_the_batch():
    chunk = b"a chunk that was read" * 10
    before = sys.getrefcount(chunk)
    batch = compiled_batch.Batch()
    for place in range(100):
        batch.append_slice(b"t", chunk, place, place + 5, 0, 0)
    assert sys.getrefcount(chunk) == before + 1
    other = compiled_batch.Batch()
    other.absorb(batch)
    del batch
    assert other.payloads[0] == chunk[:5]
    del other
    assert sys.getrefcount(chunk) == before


def test_a_chunk_is_not_kept_for_a_small_part_of_it():
    """``payload_bytes`` bounds what is pending: so what it does not count must be bounded by it."""
    batch = compiled_batch.Batch()
    chunk = b"much more than is taken" * 100
    before = sys.getrefcount(chunk)
    batch.append_slice(b"t", chunk, 0, 4, 0, 0)
    batch.append(b"t", [chunk], 0, 0)
    batch.append_slice(b"t", chunk, 5, 9, 0, 0)
    batch.append_slice(b"t", b"the next chunk", 0, 3, 0, 0)
    assert batch.payloads == [b"much", chunk, b"more", b"the"]
    assert sys.getrefcount(chunk) == before + 1  # it is a payload itself
    assert batch.payload_bytes == 4 + len(chunk) + 4 + 3


def test_payloads_are_let_go_with_the_batch():
    payload = b"a payload" * 3
    before = sys.getrefcount(payload)
    batch = compiled_batch.Batch()
    batch.append(b"t", [payload] * 100, 0, 0)
    assert batch.payloads[5] is payload
    del batch
    assert sys.getrefcount(payload) == before


def test_payloads_may_be_any_bytes():
    batch = compiled_batch.Batch()
    batch.append(b"t", (bytearray(b"1"), memoryview(b"2"), b"3"), 0, 0)
    batch.append(b"t", [memoryview(b"12")[::2]], 0, 0)
    assert batch.payloads == [b"1", b"2", b"3", b"1"]


@pytest.mark.parametrize("span", [(-1, 2), (2, 1), (0, 6)])
def test_a_slice_lies_within_its_chunk(span):
    for batch in (compiled_batch.Batch(), python_batch.Batch()):
        with pytest.raises(AssertionError):
            batch.append_slice(b"t", b"chunk", *span, 0, 0)
        assert not batch.count


def test_a_batch_that_is_refused_something_stays_as_it_was():
    batch = compiled_batch.Batch()
    batch.append(b"t", [b"1"], 0, 0)
    for wrong in (["text"], [None], 5, [b"2", 3]):
        with pytest.raises(TypeError):
            batch.append(b"t", wrong, 0, 0)
        with pytest.raises((TypeError, ValueError)):
            batch.append_each([b"t"] * 3, wrong, 0, 0)
    with pytest.raises(TypeError):
        batch.append_each([None], [b"x"], 0, 0)
    with pytest.raises(ValueError):
        batch.append_each([b"t"], [b"x", b"y"], 0, 0)
    with pytest.raises(IndexError):
        batch.add_run(1, [b"x"], 0, 0)
    with pytest.raises(OverflowError):
        batch.append(b"t", [b"x"], 2**63, 0)
    assert batch.payloads == [b"1"]
    assert batch.runs == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("time_ms", "flags", "ids"), [(-1, 0, [1]), (0, 2**16, [1]), (0, 0, [2**32]), (0, 0, [1, 2])]
)
def test_what_does_not_fit_into_an_entry_is_refused(time_ms, flags, ids):
    batch = compiled_batch.Batch()
    batch.append(b"t", [b"x"], time_ms, flags)
    with pytest.raises((OverflowError, ValueError)):
        compiled_entry.encode_entry(batch, 1, 1, ids, ids)


def test_batches_are_encoded_while_others_are_filled():
    """The encoder runs beside the loop: what it reads, nobody moves."""
    chunk = bytes(200_000)
    full = compiled_batch.Batch()
    for number in range(2_000):
        full.append_slice(b"%d" % (number % 7), chunk, number, number + 90, 1, 0)
    expected = encoded(compiled_entry, full, ()).data
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(encoded(compiled_entry, full, ()).data for _ in range(50))
    )
    thread.start()
    while thread.is_alive():
        fill(compiled_batch.Batch(), [("append", b"t", [b"x"] * 50, 1, 0, None)])
        assert full.group(b"3").payloads[0] == bytes(90)
    thread.join()
    assert found == [expected] * 50
