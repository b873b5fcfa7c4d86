r"""Patterns of PSUBSCRIBE and PUBSUB CHANNELS, with the meaning Redis gives them.

=========  ==============================================================================
``*``      any bytes, also none
``?``      any one byte
``[ab-d]`` one byte of those listed, or of a range, whose ends may stand in either order
``[^a]``   one byte not listed
``\x``     the byte x itself, also in a class; at the very end a backslash is a backslash
=========  ==============================================================================

What else Redis does, and its users may rely on: a class that is not closed ends with the pattern;
``]`` closes a class wherever it stands, so ``[]`` matches nothing and ``[^]`` any byte; the end of
a range is taken literally, even ``]``; the empty subject matches the empty pattern only, not ``*``.
Bytes are compared without sign. (In Redis that depends on the processor it was built for, which can
be seen in ranges from below 128 to above.)

**Cost.** Patterns come from strangers, and ``a*a*a*b`` makes a matcher that tries again at every
star exponential or close to it (CVE-2022-36021, CVE-2024-31228). But between two stars stands a
fixed number of bytes: if such a piece fits at all, its leftmost place is as good as any other, and
no earlier star needs to be tried again. Atomic groups say so to the regular expression, and a match
takes at most the length of the pattern times that of the subject.
"""

import re
from collections.abc import Callable
from typing import Final

__all__ = ["compile"]

ANY: Final = b"."
NEVER: Final = b"(?!)"


def compile(pattern: bytes) -> Callable[[bytes], bool]:  # noqa: A001 - reads as ``glob.compile``
    """Return a function that tells whether a subject matches. Callers bound the pattern's size."""
    fullmatch = re.compile(_expression(pattern), re.DOTALL).fullmatch

    def matches(subject: bytes) -> bool:
        return fullmatch(subject) is not None

    return matches


def _expression(pattern: bytes) -> bytes:
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return pieces[0]
    if not any(pieces):
        return b".+"
    first, *middle, last = pieces
    atoms = [b"(?>.*?%b)" % piece for piece in middle if piece]
    return b"%b%b.*%b" % (first, b"".join(atoms), last)


def _pieces(pattern: bytes) -> list[bytes]:
    """Cut at the stars; return what stands between them, each byte as a regular expression."""
    pieces = [b""]
    position = 0
    while position < len(pattern):
        match pattern[position : position + 1]:
            case b"*":
                pieces.append(b"")
            case b"?":
                pieces[-1] += ANY
            case b"[":
                members, position = _byte_class(pattern, position + 1)
                pieces[-1] += members
            case b"\\" if position + 1 < len(pattern):
                position += 1
                pieces[-1] += _literal(pattern[position])
            case _:
                pieces[-1] += _literal(pattern[position])
        position += 1
    return pieces


def _byte_class(pattern: bytes, position: int) -> tuple[bytes, int]:
    """Translate a class from behind its bracket; return it and where its last byte stands."""
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
