"""What a certificate and a revocation list say of themselves: names, dates, numbers.

``ssl`` tells this only of certificates that it has just verified. A broker must also look at its
own certificate, which may have expired, and at revocation lists, which ``ssl`` does not show at
all. So the few fields needed are read from the DER form (X.690) here. This verifies nothing.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from ipaddress import ip_address

import msgspec

_INTEGER, _OCTETS, _OID, _SEQUENCE, _SET = 0x02, 0x04, 0x06, 0x30, 0x31
_UTC_TIME, _GENERALIZED_TIME = 0x17, 0x18
_VERSION, _EXTENSIONS = 0xA0, 0xA3  # explicitly tagged [0] and [3]
_DNS, _IP = 0x82, 0x87  # kinds of alternative names
_COMMON_NAME = bytes.fromhex("550403")
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
_LENGTH_BYTES_MAX = 4

_Element = tuple[int, bytes]  # tag, content


class CertificateFacts(msgspec.Struct, frozen=True):
    """A certificate, as far as a broker needs to know its own. Times are Unix seconds."""

    serial: int
    subject: bytes  # DER
    common_name: str
    dns: tuple[str, ...]
    addresses: tuple[str, ...]
    not_before: int
    not_after: int
    fingerprint: str  # SHA-256

    @property
    def name(self) -> str:
        """For people: the first name that it is for."""
        return next(iter((*self.dns, *self.addresses, self.common_name)), "") or "nobody"

    def covers(self, host: str) -> bool:
        """Whether clients that connect to ``host`` accept it, as RFC 6125 says."""
        if host in self.addresses:
            return True
        host = host.lower().rstrip(".")
        _, dot, parent = host.partition(".")
        wild = f"*.{parent}" if dot else ""
        return any(name.lower() in {host, wild} for name in self.dns if name)


class RevocationList(msgspec.Struct, frozen=True):
    """A revocation list. Times are Unix seconds; ``next_update`` is 0 if it has none."""

    issuer: bytes  # DER
    this_update: int
    next_update: int


def pem_blocks(text: bytes, kind: bytes) -> list[bytes]:
    """The DER contents of all blocks of a kind in a PEM file, such as CERTIFICATE or X509 CRL."""
    pattern = rb"-----BEGIN %b-----\s+([A-Za-z0-9+/=\s]+)-----END %b-----" % (kind, kind)
    try:
        return [base64.b64decode(body) for body in re.findall(pattern, text)]
    except binascii.Error as error:
        raise ValueError(f"not PEM: {error}") from None


def read_certificate(der: bytes) -> CertificateFacts:
    """Raises ValueError."""
    fields = _fields(der)
    if fields and fields[0][0] == _VERSION:
        del fields[0]
    serial, _, _, validity, subject, *_ = (content for _, content in fields)
    starts, ends = (_time(one) for one in _elements(validity))
    extensions = b"".join(content for tag, content in fields if tag == _EXTENSIONS)
    names = list(_alternative_names(extensions)) if extensions else []
    return CertificateFacts(
        int.from_bytes(serial, "big"),
        subject,
        _common_name(subject),
        tuple(name.decode("ascii", "replace") for tag, name in names if tag == _DNS),
        tuple(str(ip_address(name)) for tag, name in names if tag == _IP),
        starts,
        ends,
        sha256(der).hexdigest(),
    )


def read_revocation_list(der: bytes) -> RevocationList:
    """Raises ValueError."""
    fields = _fields(der)
    if fields and fields[0][0] == _INTEGER:  # the version; absent in the first
        del fields[0]
    _, (_, issuer), this_update, *rest = fields
    has_next = rest and rest[0][0] in {_UTC_TIME, _GENERALIZED_TIME}
    return RevocationList(issuer, _time(this_update), _time(rest[0]) if has_next else 0)


def _fields(der: bytes) -> list[_Element]:
    """The fields of what is signed."""
    (_, whole), *_ = _elements(der)
    (_, signed), *_ = _elements(whole)
    return list(_elements(signed))


def _elements(data: bytes) -> Iterator[_Element]:
    at = 0
    while at < len(data):
        tag, size, at = _header(data, at)
        yield tag, data[at : at + size]
        at += size


def _header(data: bytes, at: int) -> tuple[int, int, int]:
    """Tag, size of the content, and where that begins."""
    if len(data) < at + 2:
        raise ValueError("a field is cut off")
    tag, size, at = data[at], data[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        if not 0 < count <= _LENGTH_BYTES_MAX:
            raise ValueError("a field has a length that is not allowed")
        size, at = int.from_bytes(data[at : at + count], "big"), at + count
    if at + size > len(data):
        raise ValueError("a field is cut off")
    return tag, size, at


def _time(element: _Element) -> int:
    tag, content = element
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return int(datetime.strptime(content.decode("ascii"), form).replace(tzinfo=UTC).timestamp())


def _alternative_names(extensions: bytes) -> Iterator[_Element]:
    for _, extension in _elements(_only(extensions)):
        kind, *_, (_, value) = _elements(extension)
        if kind == (_OID, _ALTERNATIVE_NAMES):
            yield from _elements(_only(value))


def _only(data: bytes) -> bytes:
    """The content of the only element."""
    ((_, content),) = _elements(data)
    return content


def _common_name(subject: bytes) -> str:
    for _, name in _elements(subject):
        for _, pair in _elements(name):
            (_, kind), (_, value) = _elements(pair)
            if kind == _COMMON_NAME:
                return value.decode("utf-8", "replace")
    return ""
