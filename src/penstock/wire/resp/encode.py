"""Replies and deliveries to bytes, for RESP 2 and RESP 3.

Where RESP 2 lacks a type, it gets what Redis sends: a map is a flat array, a push an array, a
boolean an integer, a double a bulk string. Simple strings and errors may quote a client, so line
ends in them become blanks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from penstock.wire.resp.names import name_of

# the RESP version that the client chose with HELLO; 2 by default
Protocol: TypeAlias = Literal[2, 3]

# what ``value`` encodes
Value: TypeAlias = int | float | bytes | str | Sequence["Value"] | Mapping["Value", "Value"] | None


def simple(text: str) -> bytes:
    return b"+%b\r\n" % _line(text)


def error(text: str) -> bytes:
    """The first word, in capitals, is the code that clients look at."""
    return b"-%b\r\n" % _line(text)


def integer(number: int) -> bytes:
    return b":%d\r\n" % number


def integers(number: int, count: int) -> bytes:
    """The same integer ``count`` times: the replies to a run of commands."""
    return b":%d\r\n" % number * count


def bulk(data: bytes | None, protocol: Protocol) -> bytes:
    return null(protocol) if data is None else b"$%d\r\n%b\r\n" % (len(data), data)


def null(protocol: Protocol) -> bytes:
    return b"_\r\n" if protocol == 3 else b"$-1\r\n"


def null_array(protocol: Protocol) -> bytes:
    """What XREAD returns after a timeout."""
    return b"_\r\n" if protocol == 3 else b"*-1\r\n"


def boolean(flag: bool, protocol: Protocol) -> bytes:
    if protocol == 3:
        return b"#t\r\n" if flag else b"#f\r\n"
    return integer(int(flag))


def double(number: float, protocol: Protocol) -> bytes:
    """The shortest number of digits that gives the value back; whole numbers without a point."""
    digits = repr(float(number)).removesuffix(".0").encode()
    return b",%b\r\n" % digits if protocol == 3 else bulk(digits, protocol)


def array(items: Sequence[bytes]) -> bytes:
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def push(items: Sequence[bytes], protocol: Protocol) -> bytes:
    return b">%d\r\n%b" % (len(items), b"".join(items)) if protocol == 3 else array(items)


def mapping(pairs: Iterable[tuple[bytes, bytes]], protocol: Protocol) -> bytes:
    items = [item for pair in pairs for item in pair]
    if protocol == 3:
        return b"%%%d\r\n%b" % (len(items) // 2, b"".join(items))
    return array(items)


def value(item: Value, protocol: Protocol) -> bytes:
    match item:
        case None:
            return null(protocol)
        case bytes():
            return bulk(item, protocol)
        case str():
            return bulk(item.encode(errors="replace"), protocol)
        case bool():
            return boolean(item, protocol)
        case int():
            return integer(item)
        case float():
            return double(item, protocol)
        case Mapping():
            pairs = ((value(key, protocol), value(of, protocol)) for key, of in item.items())
            return mapping(pairs, protocol)
        case _:
            return array([value(element, protocol) for element in item])


def message_head(protocol: Protocol) -> bytes:
    """What a message of a channel begins with: all but its name and payload."""
    return b">3\r\n$7\r\nmessage\r\n" if protocol == 3 else b"*3\r\n$7\r\nmessage\r\n"


def shard_head(protocol: Protocol) -> bytes:
    return b">3\r\n$8\r\nsmessage\r\n" if protocol == 3 else b"*3\r\n$8\r\nsmessage\r\n"


def pattern_head(pattern: bytes, protocol: Protocol) -> bytes:
    sign = b">" if protocol == 3 else b"*"
    return b"%b4\r\n$8\r\npmessage\r\n$%d\r\n%b\r\n" % (sign, len(pattern), pattern)


def messages(topic: bytes, payloads: Sequence[bytes], protocol: Protocol) -> bytes:
    return deliveries(message_head(protocol), topic, payloads)


def pushes(head: bytes, rests: Sequence[bytes]) -> bytes:
    """Messages with a head; ``rests`` are names and payloads as a publisher has encoded them."""
    return b"%b%b\r\n" % (head, (b"\r\n" + head).join(rests))


def deliveries(head: bytes, topic: bytes, payloads: Sequence[bytes]) -> bytes:
    """Messages of one topic with a head."""
    if b"%" in topic:
        topic = name_of(topic)
    head = b"%b$%d\r\n%b\r\n$" % (head, len(topic), topic)
    if len(payloads) > 1 and len(set(map(len, payloads))) == 1:
        head = b"%b%d\r\n" % (head, len(payloads[0]))
        return b"%b%b\r\n" % (head, (b"\r\n" + head).join(payloads))
    return b"".join([b"%b%d\r\n%b\r\n" % (head, len(payload), payload) for payload in payloads])


def _line(text: str) -> bytes:
    return text.replace("\r", " ").replace("\n", " ").encode(errors="replace")
