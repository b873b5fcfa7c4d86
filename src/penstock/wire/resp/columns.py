"""The fast path for commands of one name whose arguments differ: many are read at once, in columns.

Commands with the same name and number of arguments begin with the same bytes, the **head**:
``*3 $7 PUBLISH``. So a block of input is cut at the heads and each piece at its line ends. Lines at
the same place of their pieces are a column: all lengths of the first argument, all first arguments,
and so on. Lengths are compared with arguments column by column. All that takes a few calls,
whatever the number of commands.

Only the last argument may contain line ends. A command that does not fit, for whatever reason, ends
the columns and is left to the plain path, which alone decides what is wrong with it.

**Cost.** A block is small at first and grows with what was read: input that never fits is not cut
again and again.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from penstock.limits import KIB
from penstock.wire.resp.events import RespColumns

CRLF: Final = b"\r\n"
BLOCK_BYTES: Final = KIB  # of the first block
GROWTH: Final = 4  # how much larger than all that was read before a block may be
COLUMNAR: Final = frozenset(
    (b"PUBLISH", b"publish", b"SPUBLISH", b"spublish", b"XADD", b"xadd")
)  # commands that are, in the two spellings that clients use
LENGTHS: Final = {b"$%d" % length: length for length in range(1_024)}  # of nearly all arguments


def read_columns(
    data: bytes, position: int, name: bytes, arguments: int, bytes_max: int
) -> tuple[RespColumns | None, int]:
    """Read commands of ``arguments`` arguments, ``name`` the first; return them and where they end.

    ``bytes_max``: what all arguments of one command may have together.
    """
    head = b"*%d\r\n$%d\r\n%b\r\n" % (arguments, len(name), name)
    joint = CRLF + head
    start, end, size = position, 0, BLOCK_BYTES
    columns: list[list[bytes]] = [[] for _ in range(arguments - 1)]
    rests: list[bytes] = []
    while end < len(data) and data.startswith(head, position):
        end = min(position + size, len(data))
        pieces = data[position + len(head) : end].split(joint)
        last = pieces.pop()  # it may go on behind the block
        if end == len(data) and last.endswith(CRLF):
            pieces.append(last[:-2])
        if not pieces:
            size *= GROWTH
            continue
        count = _append_fitting(columns, pieces, bytes_max)
        rests += pieces[:count]
        position += sum(map(len, rests[len(rests) - count :])) + count * len(joint)
        if count < len(pieces):
            break
        size = max(BLOCK_BYTES, GROWTH * (position - start))
    return (RespColumns(name, columns, rests) if rests else None), position


def _append_fitting(columns: list[list[bytes]], pieces: list[bytes], bytes_max: int) -> int:
    """Append the arguments of the first pieces that are what they announce; return how many."""
    rows = [piece.split(CRLF, 2 * len(columns) - 1) for piece in pieces]
    lines = _fitting(rows, len(columns)) if max(map(len, pieces)) <= bytes_max else None
    if lines is None:
        rows = list(takewhile(lambda row: _fits(row, len(columns), bytes_max), rows))
        lines = list(zip(*rows, strict=True))
    for column, found in zip(columns, lines[1::2], strict=False):
        column.extend(found)
    return len(rows)


def _fits(row: list[bytes], arguments: int, bytes_max: int) -> bool:
    return sum(map(len, row)) <= bytes_max and _fitting([row], arguments) is not None


def _fitting(rows: list[list[bytes]], arguments: int) -> list[tuple[bytes, ...]] | None:
    """The lines of all rows by column; None if some row does not fit."""
    try:
        lines = list(zip(*rows, strict=True))
    except ValueError:
        return None
    if len(lines) != 2 * arguments:
        return None
    for lengths, values in zip(lines[::2], lines[1::2], strict=True):
        if not _are_lengths(lengths, values):
            return None
    return lines


def _are_lengths(lines: Sequence[bytes], values: Sequence[bytes]) -> bool:
    sizes = list(map(len, values))
    return sizes == list(map(LENGTHS.get, lines)) or lines == tuple(
        [b"$%d" % size for size in sizes]
    )
