"""Replies: exact bytes in both versions of the protocol."""

import math

import pytest

from penstock.wire.resp import encode

# The value, as RESP 2, as RESP 3.
VALUES = [
    (None, b"$-1\r\n", b"_\r\n"),
    (0, b":0\r\n", b":0\r\n"),
    (-7, b":-7\r\n", b":-7\r\n"),
    (True, b":1\r\n", b"#t\r\n"),
    (False, b":0\r\n", b"#f\r\n"),
    (b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
    ("ü", b"$2\r\n\xc3\xbc\r\n", b"$2\r\n\xc3\xbc\r\n"),
    (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
    (2.0, b"$1\r\n2\r\n", b",2\r\n"),
    (-math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
    ([], b"*0\r\n", b"*0\r\n"),
    ((1, [b"a"]), b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n"),
    ({b"k": 1}, b"*2\r\n$1\r\nk\r\n:1\r\n", b"%1\r\n$1\r\nk\r\n:1\r\n"),
]


@pytest.mark.parametrize(("item", "old", "new"), VALUES)
def test_a_value_is_encoded_as_its_protocol_has_it(item, old, new):
    assert encode.value(item, 2) == old
    assert encode.value(item, 3) == new


def test_a_push_is_an_array_where_there_is_no_push():
    items = [encode.bulk(b"subscribe", 2), encode.bulk(b"t", 2), encode.integer(1)]
    body = b"3\r\n$9\r\nsubscribe\r\n$1\r\nt\r\n:1\r\n"
    assert encode.push(items, 2) == b"*" + body
    assert encode.push(items, 3) == b">" + body


def test_the_absence_of_an_array_has_its_own_sign_in_resp_2():
    assert encode.null_array(2) == b"*-1\r\n"
    assert encode.null_array(3) == b"_\r\n"


def test_a_line_remains_one_line_whatever_it_quotes():
    assert encode.simple("OK") == b"+OK\r\n"
    assert encode.error("ERR no 'a\r\n+OK\r\n'") == b"-ERR no 'a  +OK  '\r\n"
    assert encode.error("ERR \ud800") == b"-ERR ?\r\n"


@pytest.mark.parametrize(
    "payloads", [[], [b"a"], [b"a", b"b"], [b"", b""], [b"a", b"bcd", b"\r\n"]]
)
@pytest.mark.parametrize(("protocol", "sign"), [(2, b"*"), (3, b">")])
def test_messages_are_as_many_frames_as_there_are_payloads(payloads, protocol, sign):
    def framed(*strings: bytes) -> bytes:
        items = [encode.bulk(string, protocol) for string in strings]
        return b"%b%d\r\n%b" % (sign, len(items), b"".join(items))

    plain = [framed(b"message", b"top/ic", payload) for payload in payloads]
    assert encode.messages(b"top/ic", payloads, protocol) == b"".join(plain)
    matched = [framed(b"pmessage", b"t*", b"top/ic", payload) for payload in payloads]
    head = encode.pattern_head(b"t*", protocol)
    assert encode.deliveries(head, b"top/ic", payloads) == b"".join(matched)
    rests = [b"$6\r\ntop/ic\r\n$%d\r\n%b" % (len(payload), payload) for payload in payloads]
    assert not rests or encode.pushes(head, rests) == b"".join(matched)
    sharded = [framed(b"smessage", b"top/ic", payload) for payload in payloads]
    head = encode.shard_head(protocol)
    assert encode.deliveries(head, b"top/ic", payloads) == b"".join(sharded)


def test_integers_are_the_replies_to_a_run():
    assert encode.integers(3, 2) == b":3\r\n:3\r\n"
    assert encode.integers(3, 0) == b""
