"""Messages handed out, many at once: what neighbours have in common is written once, for all."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Delivered, Polled, Response

STEPS = st.sampled_from([1, 1, 1, 1, 50, 200])
"""Leases and offsets go up, mostly by one."""

ITEMS = st.lists(
    st.tuples(
        STEPS,
        STEPS,
        st.sampled_from([0, 0, 7]),
        st.sampled_from([0, 0, 3]),
        st.sampled_from([b"", b"x", b"y" * 100, b"z" * 100, b"w" * 127, b"v" * 128]),
        st.sampled_from([0, 1_700_000_000_000]),
        st.sampled_from([0, 0, 300]),
        st.sampled_from([(), (), (), ((b"name", b"value"),)]),
    ),
    max_size=12,
)

FIRST = st.sampled_from([0, 120, 2**14 - 5, 2**21 - 3, 2**62])


@given(ITEMS, FIRST, FIRST)
def test_rows_of_items_are_what_the_library_makes_of_them(steps, lease, offset):
    items, messages = [], []
    for up, along, *rest, headers in steps:
        lease, offset = lease + up, offset + along
        items.append((lease, offset, *rest, headers))
        names = ("priority", "content_type", "payload", "ts_ms", "redeliveries")
        fields = dict(zip(names, rest, strict=True))
        told = [{"name": name.decode(), "value": value} for name, value in headers]
        messages.append(Delivered(lease_id=lease, offset=offset, headers=told, **fields))
    together = Response(polled=Polled(items=messages), request_id=7)
    assert encode.polled(items, 7) == encode.response(together)
    one_by_one = [Response(polled=Polled(items=[message])) for message in messages]
    assert encode.pushed(items) == b"".join(map(encode.response, one_by_one))
