"""Pages of a topic hold each message once, in either order, and never stop without saying so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.reading.newest import busiest, newest, peek, tail
from penstock.api.reading.pages import Look, look
from penstock.api.reading.scanning import Bounds
from penstock.api.reading.series import bucket_ms, number_in, numeric_fields, points_of
from penstock.model.message import Extras, Signature
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore

T0 = 1_700_000_000_000


def store_of(payloads, topic=b"t", deleted=()):
    store = MemoryStore()
    for number, payload in enumerate(payloads):
        batch = Batch()
        batch.append(topic, [payload], T0 + 1_000 * number, 1)
        store.commit(batch)
    store.delete(topic, list(deleted))
    return store


def pages(store, wanted, bounds=Bounds):
    """All pages from one look on."""
    offset = wanted.offset
    while True:
        found = look(store, store.topic(b"t"), wanted._replace(offset=offset), str, bounds())
        yield found.page
        if found.next_offset is None:
            return
        offset = found.next_offset
        wanted = wanted._replace(at_ms=None)


@given(
    st.integers(1, 40),
    st.sets(st.integers(0, 40)),
    st.sampled_from(["newest", "oldest"]),
    st.integers(1, 7),
    st.integers(1, 9),
)
@settings(max_examples=80, deadline=None)
def test_pages_hold_each_message_once_in_order(count, deleted, order, limit, scanned_max):
    store = store_of([b"%d" % number for number in range(count)], deleted=deleted)
    if store.topic(b"t").count == 0:
        return
    wanted = Look(order=order, limit=limit)
    seen = [
        row.offset
        for page in pages(store, wanted, lambda: Bounds(scanned_max))
        for row in page.items
    ]
    expected = [number for number in range(count) if number not in deleted]
    assert seen == (expected[::-1] if order == "newest" else expected)


@pytest.mark.parametrize(("order", "first"), [("oldest", 3), ("newest", 2)])
def test_a_time_is_the_place_between_two_messages(order, first):
    store = store_of([b"x"] * 6)
    page = next(pages(store, Look(order=order, at_ms=T0 + 2_500)))
    assert page.items[0].offset == first


def test_a_search_that_stops_says_so_and_goes_on():
    payloads = [b"needle"] + [b"hay"] * 50
    found = list(pages(store_of(payloads), Look(find=b"need"), lambda: Bounds(10)))
    assert [page.stopped for page in found] == ["messages"] * 5 + [""]
    assert sum(page.scanned for page in found) == 51
    assert [row.offset for page in found for row in page.items] == [0]


def test_bounds_are_messages_bytes_and_time():
    store = store_of([b"x" * 100] * 20)
    times = iter(range(100))
    assert next(pages(store, Look(), lambda: Bounds(bytes_max=500))).stopped == "bytes"
    assert next(pages(store, Look(), lambda: Bounds(clock=lambda: next(times)))).stopped == "time"
    assert next(pages(store, Look())).stopped == ""


def test_a_row_tells_all_about_a_message():
    store, batch = MemoryStore(), Batch()
    extras = Extras(((b"h", b"\xff"),), Signature(2, 7, b"s" * 64, 1, b"n"), T0 + 1, T0 + 2)
    batch.append(b"t", [b'{"a":"' + b"x" * 5_000 + b'"}'], T0, 1 | 4 | 5 << 4 | 2 << 8, [extras])
    store.commit(batch)
    (row,) = look(store, store.topic(b"t"), Look(), {7: "pump-7"}.get).page.items
    assert (row.qos, row.retain, row.priority, row.content_type) == (1, True, 5, "application/json")
    assert (row.time, row.due, row.expires) == (
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:13:20.001Z",
        "2023-11-14T22:13:20.002Z",
    )
    assert (row.signer.key, row.signer.device, row.headers[0].is_base64) == (7, "pump-7", True)
    assert (row.payload_bytes, row.cut, len(row.payload.text), row.format) == (
        5_008,
        True,
        1_024,
        "json",
    )


# ── the newest of all topics ──────────────────────────────────────────────────────────────────


def mixed(counts, size=10):
    store = MemoryStore()
    for topic, count in counts:
        batch = Batch()
        batch.append(topic, [b"x" * size] * count, T0, 0)
        store.commit(batch)
    return store


def test_the_busiest_topics_are_those_of_the_newest_messages():
    store = mixed([(b"old", 900), (b"a", 30), (b"secret", 50), (b"b", 20)])
    found = busiest(store, lambda topic: topic != b"secret", Bounds(100))
    assert [(one.name, one.messages, one.share) for one in found.items] == [
        ("a", 30, 0.3),
        ("b", 20, 0.2),
    ]
    assert (found.looked_at, found.hidden) == (100, 50)
    assert busiest(MemoryStore(), bool).looked_at == 0


def test_the_brokers_own_topics_are_busiest_only_where_nothing_else_is():
    own = [(b"$events/clients", 50), (b"$dead/g/a", 20)]
    with_others = busiest(mixed([*own, (b"a", 3)]), lambda _topic: True)
    assert [(one.name, one.messages) for one in with_others.items] == [("a", 3)]
    assert with_others.looked_at == 73
    alone = busiest(mixed(own), lambda _topic: True)
    assert [one.name for one in alone.items] == ["$events/clients", "$dead/g/a"]


def test_large_payloads_are_not_read_by_the_hundred(monkeypatch):
    store = mixed([(b"t", 300)], 100_000)
    asked, read = [], store.read
    monkeypatch.setattr(store, "read", lambda found: asked.append(len(found)) or read(found))
    assert len(list(newest(store, 0, Bounds(60)))) == 60
    assert max(asked) <= 10


def test_a_tail_says_what_it_skipped_and_what_it_did_not_see():
    store = mixed([(b"a", 50), (b"b", 10), (b"a", 5)])
    found = tail(store, 0, 65, lambda topic: topic == b"a", 3, Bounds(20))
    assert [message.sequence for message in found.messages] == [63, 64, 65]
    assert (found.skipped, found.unseen) == (7, 45)
    everything = tail(store, 60, 65, lambda _topic: True, 10, Bounds())
    assert ([m.sequence for m in everything.messages], everything.unseen) == (
        [61, 62, 63, 64, 65],
        0,
    )


@pytest.mark.parametrize(("deleted", "offset"), [((), 4), ((4,), 3), (tuple(range(1, 5)), 0)])
def test_a_peek_is_the_newest_message_that_is_there(deleted, offset):
    store = store_of([b"%d" % number for number in range(5)], deleted=deleted)
    assert peek(store, store.topic(b"t")).offset == offset


# ── numbers ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "field", "number"),
    [
        (7, "", 7.0), (True, "", None), ("7", "", None), ({"a": 1}, "a", 1.0), ({"a": 1}, "b", None),
        ({"a": {"b": [5, 6]}}, "a.b.1", 6.0), ({"a.b": 1, "a": {"b": 2}}, "a.b", 1.0),
        ({"a.b": {"c": 3}}, "a.b.c", 3.0), ([1], "9", None), ({"a": None}, "a", None),
        ({"a": 10**400}, "a", None), ([1, [2, 3]], "1.0", 2.0), ({"": 4}, ".x", None),
    ],
)  # fmt: skip
def test_a_field_is_found_by_name_or_path(value, field, number):
    assert number_in(value, field) == number


def test_numeric_fields_can_all_be_read():
    value = {"a": 1, "b": {"c": [2, "x", {"d": 3.5}]}, "s": "t", "n": None, "x.y": {"z": 9}}
    names = numeric_fields(value)
    assert names == ["a", "b.c.0", "b.c.2.d", "x.y.z"]
    assert [number_in(value, name) for name in names] == [1, 2, 3.5, 9]
    assert numeric_fields(5) == [""]


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.floats(-1e6, 1e6)), min_size=1).map(sorted),
    st.integers(1, 20),
)
def test_buckets_keep_extremes_the_last_and_the_count(samples, points_max):
    first, last, width = bucket_ms([samples], points_max)
    points = points_of(samples, first, width)
    assert (first, last) == (samples[0][0], samples[-1][0])
    assert len(points) <= points_max
    assert sum(point.count for point in points) == len(samples)
    assert min(point.min for point in points) == min(number for _, number in samples)
    assert max(point.max for point in points) == max(number for _, number in samples)
    assert points[-1].last == samples[-1][1]
