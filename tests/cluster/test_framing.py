"""Frames between nodes: whole or refused, however the bytes are cut, and bounded."""

import contextlib
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cluster.faults import PeerFault
from penstock.cluster.framing import FRAME_OVERHEAD_BYTES, PeerFrameReader, PeerFrameWriter
from penstock.obs.reasons import PeerReason

KEY = bytes(range(32))
BYTES_MAX = 1000

payload = st.integers(0, 100).map(lambda size: bytes(range(size)))


def framed(contents, key=KEY):
    writer = PeerFrameWriter(key)
    return b"".join(piece for payload in contents for piece in writer.frame(payload))


def read(data, cuts=(), key=KEY):
    """What a reader finds in bytes that come in pieces."""
    reader = PeerFrameReader(BYTES_MAX, key)
    found = []
    bounds = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(bounds):
        reader.append(data[start:end])
        while (payload := reader.next()) is not None:
            found.append(payload)
    return found


@given(st.lists(payload, max_size=8), st.data())
def test_frames_are_found_however_the_bytes_are_cut(contents, data):
    stream = framed(contents)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert read(stream, cuts) == contents


@given(st.lists(payload, min_size=1, max_size=4), st.data())
def test_a_changed_byte_is_never_taken_for_a_frame(contents, data):
    """What came before it is read; then all is refused, or waits for bytes that never come."""
    stream = bytearray(framed(contents))
    place = data.draw(st.integers(0, len(stream) - 1))
    stream[place] ^= data.draw(st.integers(1, 255))
    reader = PeerFrameReader(BYTES_MAX, KEY)
    reader.append(bytes(stream))
    found = []
    with contextlib.suppress(PeerFault):
        while (payload := reader.next()) is not None:
            found.append(payload)
    ends = list(accumulate(len(content) + FRAME_OVERHEAD_BYTES for content in contents))
    assert found == contents[: sum(end <= place for end in ends)]


@pytest.mark.parametrize(
    "order",
    [(0, 0, 1, 2), (1, 0, 2), (1, 2), (0, 2), (2,)],
    ids=["repeated", "moved", "first left out", "middle left out", "last alone"],
)
def test_frames_that_are_repeated_moved_or_left_out_are_refused(order):
    writer = PeerFrameWriter(KEY)
    frames = [b"".join(writer.frame(text)) for text in (b"one", b"two", b"three")]
    with pytest.raises(PeerFault) as caught:
        read(b"".join(frames[number] for number in order))
    assert caught.value.reason is PeerReason.MALFORMED_FRAME


def test_a_frame_of_another_connection_is_refused():
    with pytest.raises(PeerFault):
        read(framed([b"hello"], key=bytes(32)))


def test_an_announced_size_above_the_bound_is_refused_before_it_comes():
    reader = PeerFrameReader(BYTES_MAX, KEY)
    reader.append((BYTES_MAX + 1).to_bytes(4, "little"))
    with pytest.raises(PeerFault) as caught:
        reader.next()
    assert caught.value.reason is PeerReason.FRAME_TOO_LARGE


def test_a_frame_of_the_bound_passes():
    assert read(framed([bytes(BYTES_MAX)])) == [bytes(BYTES_MAX)]


def test_what_follows_a_change_of_keys_in_the_same_bytes_is_read_with_the_new_key():
    reader = PeerFrameReader(10)
    reader.append(framed([b"plain"], key=b"") + framed([b"x" * 500, b"last"]))
    assert reader.next() == b"plain"
    reader.rekey(BYTES_MAX, KEY)
    assert [reader.next(), reader.next(), reader.next()] == [b"x" * 500, b"last", None]
