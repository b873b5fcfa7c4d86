"""Where packets end: to cut a stream of them into pieces of whole packets."""

from collections.abc import Iterator


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Cut packets into pieces, each ended by the first packet that brings it to ``size``."""
    start = position = 0
    end, enough = len(data), size
    while position < end:
        # The frequent lengths of one and two bytes without a call: a message has no time for it.
        length = data[position + 1]
        if length < 0x80:
            position += 2 + length
        elif (high := data[position + 2]) < 0x80:
            position += 3 + (length & 0x7F) + (high << 7)
        else:
            position = _end(data, position)
        if position >= enough:
            yield data[start:position]
            start, enough = position, position + size
    if start < end:
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
