"""Messages as lines: taken apart as they come, so that a line that was typed is sent at once."""

from collections.abc import Iterable, Iterator
from typing import Final

READ_BYTES: Final = 1 << 20
"""How much to read at a time."""


def in_lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines that each chunk completes; the last one needs no end of line."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield lines
    if rest:
        yield [rest]
