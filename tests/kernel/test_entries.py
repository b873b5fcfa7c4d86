"""The compiled encoder of stream entries does what the Python form does."""

from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

from penstock.doors.resp.streams import encoding as compiled
from penstock.doors.resp.streams.fields import column_contents
from penstock.model.message import FLAG_FIELDS
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore

(python,) = interpreted("penstock.doors.resp.streams.encoding")

TEXTS = st.one_of(
    st.sampled_from([b"", b"21.5", b"payload", b'say "hi"', b"a\\b", b"\xff", "ä€".encode()]),
    st.text(max_size=12).map(str.encode),
    st.binary(max_size=12),
    st.integers(9, 101).map(lambda size: b"x" * size),
)
ENTRIES = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5)


def stored(appends):
    """Slices of a topic with these messages, as a reader finds them."""
    store, batch = MemoryStore(), Batch()
    for payload, flags, extras, time_ms in appends:
        batch.append(b"t", [payload], time_ms, flags, [extras] if extras else None)
    store.commit(batch)
    return store.read_topic(b"t", 0, 10_000, 1 << 24).slices


def both(slices):
    for part in slices:
        assert compiled.encoded_slice(part, b"t") == python.encoded_slice(part, b"t")
        yield compiled.encoded_slice(part, b"t")


@given(
    entries=st.lists(st.tuples(ENTRIES, st.integers(0, 2**40)), min_size=1, max_size=8),
    later_ms=st.integers(0, 5_000),
)
def test_entries_of_any_fields_are_encoded_alike(entries, later_ms):
    appends = []
    for fields, time_ms in entries:
        names = tuple(name for name, _ in fields)
        content = column_contents(names, [[value] for _, value in fields])
        extras = content.extras[0] if content.extras else None
        flags = FLAG_FIELDS if content.is_fields else 0
        base_ms = entries[0][1] + min(time_ms, later_ms)
        appends.append((content.payloads[0], flags, extras, base_ms))
    found = [one for part in both(stored(appends)) for one in part.entries]
    for (fields, _), entry in zip(entries, found, strict=True):
        values = {value for pair in fields for value in pair}
        assert all(b"$%d\r\n%b\r\n" % (len(value), value) in entry for value in values)


@given(payloads=st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_plain_messages_are_entries_with_one_field(payloads):
    slices = stored([(payload, 0, None, 7) for payload in payloads])
    (found,) = both(slices)
    assert found.ids == [b"7-%d" % offset for offset in range(len(payloads))]
    for payload, entry in zip(payloads, found.entries, strict=True):
        assert entry.endswith(b"*2\r\n$7\r\npayload\r\n$%d\r\n%b\r\n" % (len(payload), payload))


@given(
    payload=st.one_of(
        st.text(alphabet='{}":,\\ a', max_size=24).map(str.encode),
        st.sampled_from(
            [b'{"a":"1"}', b'{"a":"1","b":"2"}', b'{"":""}', b"{}", b'{"a":"1","a":"2"}',
             b'{"a": "1"}', b'{"a":"\\u00e4"}', b'{"a":"1",}', b'{"a":"1"},', b'{"a":1}']
        ),
    )
)  # fmt: skip
def test_what_is_not_written_by_the_broker_is_left_to_the_parser(payload):
    (part,) = stored([(payload, FLAG_FIELDS, None, 1)])
    outcomes = []
    for form in (compiled, python):
        try:
            outcomes.append(form.encoded_slice(part, b"t"))
        except ValueError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_large_and_many_fields_are_encoded_alike():
    many = b"{%b}" % b",".join([b'"n%d":"%d"' % (n, n) for n in range(200)])
    large = b'{"a":"%b"}' % (b"x" * 200_000)
    just = b"{%b}" % b",".join([b'"n%02d":"%b"' % (n, b"y" * 2_000) for n in range(32)])
    tiny = b"{%b}" % b",".join([b'"%c":""' % (65 + n) for n in range(26)])
    appends = [(payload, FLAG_FIELDS, None, 5) for payload in (many, large, just, tiny)]
    assert len(next(both(stored(appends))).ids) == 4
