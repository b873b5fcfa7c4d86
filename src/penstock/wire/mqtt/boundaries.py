"""Where packets end: to cut a stream of them into pieces of whole packets."""

from collections.abc import Iterator


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cut packets into pieces, each ended by the first packet that brings it to ``size``."""
    start = position = 0
    while position < len(data):
        position = _end(data, position)
        if position - start >= size:
            yield data[start:position]
            start = position
    if start < len(data):
        yield data[start:]


def _end(data: bytes, position: int) -> int:
    """Where the packet at ``position`` ends: behind its first byte, its length and its body."""
    length = shift = 0
    for byte in data[position + 1 : position + 5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return position + 1 + shift // 7 + length
