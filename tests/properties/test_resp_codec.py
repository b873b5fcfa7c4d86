"""Laws of the RESP codec, with hiredis and redis-py as the other end."""

import math
from itertools import pairwise

import hiredis
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from redis.connection import Connection

from penstock.wire.resp import RespCommand, RespServerMachine, encode
from penstock.wire.violation import Violation
from tests.wire.resp.commands import byte_by_byte, fed, packed, stranger, taken_apart

arguments = st.sampled_from((b"a", b"b", b"", b"\r\n", b"$1\r\n")) | st.binary(max_size=12)
commands = st.lists(arguments, min_size=1, max_size=5) | st.sampled_from(
    ([b"P", b"t", b"1"], [b"P", b"t", b"2"], [b"P", b"t", b"33"], [b"P", b"t", bytes(2_000)])
)
# read in columns, if there are several in a row
names = st.sampled_from((b"PUBLISH", b"publish", b"XADD", b"SPUBLISH"))
heads = st.sampled_from((b"*3\r\n$7\r\nPUBLISH\r\n", b"*5\r\n$4\r\nXADD\r\n"))
columnar = (
    st.builds(lambda *args: list(args), names, arguments, arguments | st.just(bytes(700)))
    | st.builds(lambda *args: [b"XADD", *args], *[arguments] * 4)
    | st.builds(lambda topic, head: [b"PUBLISH", topic, b"x\r\n" + head + b"$1"], arguments, heads)
)
commands |= columnar
noise = st.lists(
    st.sampled_from(
        (b"*", b"$", b"\r\n", b"\n", b"-", b"0", b"1", b"2", b"10", b"99999", b'"', b"'")
    )
    | st.binary(max_size=3)
    | commands.map(lambda args: packed(*args))
    | heads,
    max_size=20,
).map(b"".join)


@st.composite
def cut(draw, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


# ── Requests ──────────────────────────────────────────────────────────────────────────────────


@given(st.data(), st.lists(commands, max_size=12))
def test_what_hiredis_packs_is_read_however_it_is_cut(data, requests):
    stream = b"".join(packed(*request) for request in requests)
    machine = RespServerMachine()
    assert fed(machine, data.draw(cut(stream))) == requests
    assert machine.pending_bytes == 0


@given(st.lists(commands, min_size=1, max_size=5))
def test_what_redis_py_packs_is_read(requests):
    named = [[b"XADD", *request] for request in requests]  # a name with blanks it takes apart
    assert fed(RespServerMachine(), Connection().pack_commands(named)) == named


@given(st.lists(commands, min_size=1, max_size=12))
def test_a_run_is_as_long_as_it_can_be(requests):
    events = RespServerMachine().receive(b"".join(packed(*request) for request in requests))
    for earlier, later in pairwise(events):
        if isinstance(earlier, RespCommand) and isinstance(later, RespCommand):
            assert len(later.args) == 1 or earlier.args[:-1] != later.args[:-1]


@given(st.data(), st.lists(columnar, min_size=20, max_size=80))
def test_what_is_read_in_columns_is_what_is_read_one_by_one(data, requests):
    """A machine for strangers, whose limits these commands keep, has no columns."""
    stream = b"".join(packed(*request) for request in requests)
    stream = stream[: data.draw(st.integers(0, len(stream)))]
    fast, plain = RespServerMachine(), stranger()
    assert taken_apart(fast.receive(stream)) == taken_apart(plain.receive(stream))
    assert bool(fast.pending_bytes) == bool(plain.pending_bytes)  # with the lengths, or without
    assert fast.closed == plain.closed


@given(st.data(), noise, st.booleans())
@example(None, b"P t 1\n" * 3, True)
def test_noise_is_read_alike_however_it_is_cut_and_never_raises(data, stream, is_trusted):
    def machine() -> RespServerMachine:
        limits = {"arguments_max": 20, "bulk_bytes_max": 100, "inline_bytes_max": 60}
        return RespServerMachine(**limits) if is_trusted else stranger(**limits)

    def ended(fed_machine: RespServerMachine, pieces: list[bytes]) -> list:
        return fed(fed_machine, [*pieces, b""])  # the last for what was put off

    whole = ended(machine(), [stream])
    assert ended(machine(), byte_by_byte(stream)) == whole
    if data is not None:
        assert ended(machine(), data.draw(cut(stream))) == whole
    assert all(isinstance(item, list) for item in whole[:-1])


@given(noise, st.booleans())
def test_no_more_is_held_than_the_bytes_of_one_command(stream, is_trusted):
    machine = RespServerMachine(bulk_bytes_max=100, inline_bytes_max=60, command_bytes_max=200)
    machine.is_trusted = is_trusted
    arrived = 0
    for byte in byte_by_byte(stream):
        events = taken_apart(machine.receive(byte))
        arrived = 0 if events else arrived + 1
        assert machine.pending_bytes <= min(arrived, 200 + 32 + 2)
        assert not any(isinstance(event, Violation) for event in events) or machine.closed


# ── Replies ───────────────────────────────────────────────────────────────────────────────────

integers = st.integers(-(2**63), 2**63 - 1)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False) | st.binary(max_size=9)
keys = integers | st.binary(max_size=9)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)


def as_resp_2(item):
    """What is left of a value where there are no maps, booleans and doubles."""
    match item:
        case bool():
            return int(item)
        case float():
            return repr(item).removesuffix(".0").encode()
        case list():
            return [as_resp_2(element) for element in item]
        case dict():
            return [as_resp_2(element) for pair in item.items() for element in pair]
        case _:
            return item


@given(values)
def test_hiredis_reads_what_is_encoded_for_resp_3(item):
    reader = hiredis.Reader()
    reader.feed(encode.array([encode.value(item, 3), encode.integer(1)]))
    assert reader.gets() == [item, 1]
    assert not reader.has_data()


@given(values)
def test_hiredis_reads_what_is_encoded_for_resp_2(item):
    reader = hiredis.Reader()
    reader.feed(encode.array([encode.value(item, 2), encode.integer(1)]))
    assert reader.gets() == [as_resp_2(item), 1]
    assert not reader.has_data()


@given(st.text(max_size=20))
def test_hiredis_reads_one_reply_whatever_a_line_quotes(text):
    reader = hiredis.Reader()
    reader.feed(encode.error(text) + encode.simple(text) + encode.integer(7))
    assert isinstance(reader.gets(), hiredis.ReplyError)
    assert isinstance(reader.gets(), bytes)
    assert reader.gets() == 7


@given(st.binary(max_size=9), st.binary(max_size=9), st.lists(st.binary(max_size=3)))
@pytest.mark.parametrize(("protocol", "kind"), [(2, list), (3, hiredis.PushNotification)])
def test_hiredis_reads_deliveries(protocol, kind, pattern, topic, payloads):
    assume(b"%" not in pattern + topic)  # an escape is shown as what it stands for
    expected = [[b"message", topic, payload] for payload in payloads]
    expected += [[b"pmessage", pattern, topic, payload] for payload in payloads]
    reader = hiredis.Reader()
    reader.feed(encode.messages(topic, payloads, protocol))
    reader.feed(encode.deliveries(encode.pattern_head(pattern, protocol), topic, payloads))
    replies = [reader.gets() for _ in expected]
    assert replies == expected
    assert all(type(reply) is kind for reply in replies)
    assert not reader.has_data()


def test_a_double_that_is_no_number_is_one_to_hiredis():
    reader = hiredis.Reader()
    reader.feed(encode.double(math.nan, 3))
    assert math.isnan(reader.gets())
