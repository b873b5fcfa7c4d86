"""Compiled, deliveries and acknowledgements of the queue protocol are what the Python form says."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

from penstock.wire.queue import encode, fast_paths
from penstock.wire.queue.events import AckRun

python_encode, python_paths = interpreted(
    "penstock.wire.queue.encode", "penstock.wire.queue.fast_paths"
)

NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
PAYLOADS = st.one_of(
    st.binary(max_size=20), st.sampled_from([b"x" * n for n in (127, 128, 16_400)])
)
HEADERS = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=4)), max_size=2).map(tuple)
ITEMS = st.tuples(
    NUMBERS,
    NUMBERS,
    st.integers(0, 7),
    st.integers(0, 3),
    PAYLOADS,
    st.integers(0, 2**45),
    st.integers(0, 200),
    HEADERS,
)


@given(items=st.lists(ITEMS, max_size=6), request_id=st.integers(0, 2**40))
def test_deliveries_are_encoded_alike(items, request_id):
    assert encode.pushed(items) == python_encode.pushed(items)
    assert encode.polled(items, request_id) == python_encode.polled(items, request_id)


def read(paths, data, has_ids):
    """What a fast path of one form makes of these bytes."""
    events = []
    end = paths.SettleFastPath(AckRun, b"t", b"g", has_ids).read(data, 0, 1 << 20, events)
    return end, [(event.leases, event.request_ids) for event in events]


@given(
    acks=st.lists(st.tuples(NUMBERS, st.sampled_from([0, 1, 130])), min_size=1, max_size=8),
    has_ids=st.booleans(),
    cut=st.integers(0, 12),
    flip=st.tuples(st.integers(0, 60), st.integers(0, 255)),
)
def test_acknowledgements_are_read_alike(acks, has_ids, cut, flip):
    frames = [encode.ack(b"t", b"g", lease, request_id=number) for lease, number in acks]
    whole = b"".join(frames)
    place, value = flip[0] % len(whole), flip[1]
    damaged = whole[:place] + bytes((value,)) + whole[place + 1 :]
    for data in (whole, whole[: len(whole) - cut], damaged):
        assert read(fast_paths, data, has_ids) == read(python_paths, data, has_ids)
