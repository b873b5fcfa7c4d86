"""The header of the PROXY protocol, versions 1 and 2, which tells where a client really comes from.

Version 1 is a line of text (``PROXY TCP4 192.0.2.7 198.51.100.1 4711 1883``), version 2 a binary
header. Both are refused as soon as they cannot become valid, and never need more than
``HEADER_BYTES_MAX``. A proxy that speaks for itself, to check whether the broker is up, says LOCAL
or UNKNOWN: the header then has no address.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from struct import Struct
from typing import NamedTuple

HEADER_BYTES_MAX = 536  # version 2 with addresses and some 500 bytes of extensions; version 1: 107
_LINE_BYTES_MAX = 107  # fixed by version 1, with the line's end

_SIGNATURE_1 = b"PROXY "
_SIGNATURE_2 = b"\r\n\r\n\0\r\nQUIT\n"
_HEAD_2 = Struct("!12sBBH")  # signature, version and command, family and transport, length
_TCP_1 = re.compile(
    rb"PROXY (TCP4|TCP6) ([0-9a-fA-F:.]{2,39}) ([0-9a-fA-F:.]{2,39})"
    rb" (0|[1-9]\d{0,4}) (0|[1-9]\d{0,4})"
)
_UNKNOWN_1 = re.compile(rb"PROXY UNKNOWN(?: [\x20-\x7e]*)?")

_LOCAL, _PROXY = 0x20, 0x21
_TCP_IPV4, _TCP_IPV6 = 0x11, 0x21
_WITHOUT_ADDRESS = {0x00, 0x31}  # unspecified; a socket of the file system
_ADDRESSES = {_TCP_IPV4: Struct("!4s4sHH"), _TCP_IPV6: Struct("!16s16sHH")}


class ProxyFault(ValueError):  # noqa: N818 - a fault of the client
    """The bytes are not, and cannot become, a valid header."""


class ProxyHeader(NamedTuple):
    """A valid header. Without a host the proxy speaks for itself."""

    size: int  # bytes of the header; the client's own bytes follow
    host: str = ""
    port: int = 0


def decode_header(data: bytes) -> ProxyHeader | None:
    """The header that ``data`` begins with; None if it is incomplete. Raises ProxyFault."""
    if data[:1] == b"\r":
        return _decode_2(data)
    if data[: len(_SIGNATURE_1)] != _SIGNATURE_1[: len(data)]:
        raise ProxyFault("no PROXY header")
    return _decode_1(data)


def _decode_1(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= _LINE_BYTES_MAX:
            raise ProxyFault("the line is too long")
        return None
    line, size = data[:end], end + 2
    found = _TCP_1.fullmatch(line)
    if found is None:
        if _UNKNOWN_1.fullmatch(line):
            return ProxyHeader(size)
        raise ProxyFault("the line is not valid")
    version = 4 if found[1] == b"TCP4" else 6
    host, _ = (_checked(text.decode("ascii"), version) for text in (found[2], found[3]))
    ports = int(found[4]), int(found[5])
    if max(ports) > 65_535:
        raise ProxyFault("a port is too large")
    return ProxyHeader(size, host, ports[0])


def _checked(text: str, version: int) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        raise ProxyFault("an address is not valid") from None
    if address.version != version:
        raise ProxyFault("an address is of the other family")
    return str(address)


def _decode_2(data: bytes) -> ProxyHeader | None:
    if data[: len(_SIGNATURE_2)] != _SIGNATURE_2[: len(data)]:
        raise ProxyFault("no PROXY header")
    if len(data) < _HEAD_2.size:
        return None
    _, command, family, length = _HEAD_2.unpack_from(data)
    size = _HEAD_2.size + length
    addresses = _check_2(command, family, length, size)
    if len(data) < size:
        return None
    if addresses is None:
        return ProxyHeader(size)
    source, _, port, _ = addresses.unpack_from(data, _HEAD_2.size)
    address = IPv4Address(source) if family == _TCP_IPV4 else IPv6Address(source)
    return ProxyHeader(size, str(address), port)


def _check_2(command: int, family: int, length: int, size: int) -> Struct | None:
    """The form of the addresses; None if there are none that mean something."""
    if size > HEADER_BYTES_MAX:
        raise ProxyFault(f"the header has {size} bytes")
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise ProxyFault("unknown version or command")
    if family in _WITHOUT_ADDRESS:
        return None
    addresses = _ADDRESSES.get(family)
    if addresses is None:
        raise ProxyFault("neither TCP nor unspecified")
    if length < addresses.size:
        raise ProxyFault("the addresses are cut short")
    return addresses
