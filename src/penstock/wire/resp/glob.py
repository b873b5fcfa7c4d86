r"""Patterns of PSUBSCRIBE and PUBSUB CHANNELS, as in Redis.

=========  ==============================================================================
``*``      any bytes, also none
``?``      any one byte
``[ab-d]`` one byte of those listed, or of a range, whose ends may be in either order
``[^a]``   one byte not listed
``\x``     the byte x itself, also in a class; at the very end a backslash is a backslash
=========  ==============================================================================

A class that is not closed ends with the pattern; ``]`` always closes a class, so ``[]`` matches
nothing and ``[^]`` any byte; the end of a range is taken literally, even ``]``; the empty subject
only matches the empty pattern, not ``*``. Bytes are compared unsigned.

**Cost.** Clients choose the patterns, and ``a*a*a*b`` makes a backtracking matcher exponential or
close to it (CVE-2022-36021, CVE-2024-31228). But between two stars is a **piece**, a fixed number
of bytes: its leftmost position is as good as any other. So the first piece is compared at the
beginning, the last one at the end, and each of the others is searched once, from the end of the one
before it.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

ANY: Final = b"."
NEVER: Final = b"(?!)"

# where a piece found between two positions of a subject ends; -1 if it is not found
Find = Callable[[bytes, int, int], int]


def compile(pattern: bytes) -> Callable[[bytes], bool]:  # noqa: A001 - reads as ``glob.compile``
    """A function that tells whether a subject matches. Callers bound the pattern's size."""
    first, *rest = _pieces(pattern)
    if not rest:
        return _equals(first)
    *middle, last = rest
    prefix, suffix = first.literal or b"", last.literal or b""
    begins, ends = _equals(first), _equals(last)
    start, tail = first.length, last.length
    finds = [_find(piece) for piece in middle if piece.length]

    def matches(subject: bytes) -> bool:
        if not subject.startswith(prefix) or not subject.endswith(suffix):
            return False  # the usual case, and the cheapest
        position, end = start, len(subject) - tail
        if end < position or not begins(subject[:position]) or not ends(subject[end:]):
            return False
        for find in finds:
            position = find(subject, position, end)
            if position < 0:
                return False
        return bool(subject)

    return matches


def cost(pattern: bytes) -> int:
    """How long matching a topic may take, in units of about 0.3 microseconds."""
    may_search = pattern.count(b"*") > 1 and (b"?" in pattern or b"[" in pattern)
    return len(pattern) if may_search else 1


class _GlobPiece(NamedTuple):
    """What is between two stars. ``literal`` is None if it has a ``?`` or a class."""

    length: int
    literal: bytes | None
    expression: bytes


def _equals(piece: _GlobPiece) -> Callable[[bytes], bool]:
    if piece.literal is not None:
        return piece.literal.__eq__
    fullmatch = re.compile(piece.expression, re.DOTALL).fullmatch
    return lambda subject: fullmatch(subject) is not None


def _find(piece: _GlobPiece) -> Find:
    literal, length = piece.literal, piece.length
    if literal is not None:

        def find_literal(subject: bytes, start: int, end: int) -> int:
            found = subject.find(literal, start, end)
            return found + length if found >= 0 else -1

        return find_literal
    search = re.compile(piece.expression, re.DOTALL).search

    def find(subject: bytes, start: int, end: int) -> int:
        found = search(subject, start, end)
        return found.end() if found else -1

    return find


def _pieces(pattern: bytes) -> list[_GlobPiece]:
    pieces: list[list[bytes]] = [[]]
    position = 0
    while position < len(pattern):
        match pattern[position : position + 1]:
            case b"*":
                pieces.append([])
            case b"?":
                pieces[-1].append(ANY)
            case b"[":
                members, position = _byte_class(pattern, position + 1)
                pieces[-1].append(members)
            case b"\\" if position + 1 < len(pattern):
                position += 1
                pieces[-1].append(_literal(pattern[position]))
            case _:
                pieces[-1].append(_literal(pattern[position]))
        position += 1
    return [_piece(atoms) for atoms in pieces]


def _piece(atoms: list[bytes]) -> _GlobPiece:
    expression = b"".join(atoms)
    if not all(atom.startswith(b"\\x") for atom in atoms):
        return _GlobPiece(len(atoms), None, expression)
    literal = bytes.fromhex(expression.replace(b"\\x", b"").decode())
    return _GlobPiece(len(atoms), literal, expression)


def _byte_class(pattern: bytes, position: int) -> tuple[bytes, int]:
    """Translate a class from after its bracket; return it and the position of its last byte."""
    is_negated = pattern.startswith(b"^", position)
    position += is_negated
    members = b""
    while position < len(pattern) and pattern[position] != ord("]"):
        if pattern[position] == ord("\\") and position + 1 < len(pattern):
            position += 1
            members += _literal(pattern[position])
        elif pattern.startswith(b"-", position + 1) and position + 2 < len(pattern):
            low, high = sorted((pattern[position], pattern[position + 2]))
            members += b"%b-%b" % (_literal(low), _literal(high))
            position += 2
        else:
            members += _literal(pattern[position])
        position += 1
    if not members:
        return (ANY if is_negated else NEVER), position
    return b"[%b%b]" % (b"^" if is_negated else b"", members), position


def _literal(byte: int) -> bytes:
    return b"\\x%02x" % byte
