"""PROXY headers: every split gives the same, garbage never raises anything but its fault."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from struct import pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.wire.proxy import HEADER_BYTES_MAX, ProxyFault, ProxyHeader, decode_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ports = st.integers(0, 65_535)
v4 = st.ip_addresses(v=4)
v6 = st.ip_addresses(v=6)


def line(source: IPv4Address | IPv6Address, target: object, port: int, own_port: int) -> bytes:
    return f"PROXY TCP{source.version} {source} {target} {port} {own_port}\r\n".encode()


def block(source, target, port: int, own_port: int, extra: bytes = b"") -> bytes:
    body = source.packed + target.packed + pack("!HH", port, own_port) + extra
    family = 0x11 if source.version == 4 else 0x21
    return SIGNATURE + pack("!BBH", 0x21, family, len(body)) + body


pairs = st.one_of(st.tuples(v4, v4), st.tuples(v6, v6))
extensions = st.binary(max_size=HEADER_BYTES_MAX - 16 - 36)


@given(pairs, ports, ports, extensions, st.binary(max_size=40), st.booleans())
def test_a_header_of_either_version_gives_the_source_and_leaves_the_rest(
    pair, port, own_port, extra, rest, is_text
):
    source, target = pair
    header = (
        line(source, target, port, own_port)
        if is_text
        else block(source, target, port, own_port, extra)
    )
    assert decode_header(header + rest) == ProxyHeader(len(header), str(source), port)
    for cut in range(len(header)):
        assert decode_header(header[:cut]) is None, "a prefix is incomplete, not wrong"


@given(st.binary(max_size=700))
@example(SIGNATURE + b"\x21\x11\xff\xff" + bytes(600))
@example(b"PROXY TCP4 " + b"1" * 600)
def test_garbage_is_a_fault_or_incomplete_and_never_needs_more_than_the_maximum(data):
    with suppress(ProxyFault):
        found = decode_header(data)
        if found is None:
            assert len(data) < HEADER_BYTES_MAX
        else:
            assert found.size <= min(len(data), HEADER_BYTES_MAX)


@given(st.one_of(st.binary(max_size=60), st.just(b"PROXY "), st.just(SIGNATURE)), st.binary())
def test_once_refused_more_bytes_do_not_help(data, more):
    try:
        found = decode_header(data)
    except ProxyFault:
        with pytest.raises(ProxyFault):
            decode_header(data + more)
    else:
        if found is not None:
            assert decode_header(data + more) == found


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
        SIGNATURE + b"\x20\x00\x00\x00",
        SIGNATURE + b"\x20\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x00\x00\x00",
        SIGNATURE + b"\x21\x31\x00\xd8" + bytes(216),
    ],
)
def test_a_proxy_that_speaks_for_itself_names_no_address(header):
    assert decode_header(header + b"\x10") == ProxyHeader(len(header))


@pytest.mark.parametrize(
    "header",
    [
        b"GET / HTTP/1.1\r\n",
        b"proxy TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 -1 2\r\n",
        b"PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        b"PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n" + bytes(107),
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY " + b" " * 101,
        SIGNATURE + b"\x11\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x22\x11\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x12\x00\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\x00\x0b",
        SIGNATURE + b"\x21\x11\x02\x09",
        b"\r\n\r\n\0\r\nQUIT\r",
    ],
)
def test_what_is_no_header_is_refused(header):
    with pytest.raises(ProxyFault):
        decode_header(header)
