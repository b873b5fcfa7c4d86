"""Commands typed as a line, split into arguments as in Redis.

A quote may begin in the middle of an argument, but its end is the end of the argument. In double
quotes a backslash escapes ``n r t b a`` and ``xHH`` as in C; in single quotes it only escapes a
single quote. The alternatives of the expression exclude one another, so a line that does not match
costs no more than one that does.
"""

import re

ARGUMENT = re.compile(
    rb"""
    \s*+
    ([^ \t\r\n"']*+)
    (?: "( (?: [^"\\] | \\. )* )"
      | '( (?: [^'\\] | \\' | \\(?!') )* )'
    )?
    (?= \s | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
CONTROLS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split(line: bytes) -> list[bytes] | None:
    """The arguments of a line, none for a blank one; None if its quotes do not close."""
    arguments: list[bytes] = []
    position = 0
    while True:
        match = ARGUMENT.match(line, position)
        if match is None:
            return None
        plain, double, single = match.groups()
        if double is not None:
            plain += ESCAPE.sub(_unescape, double)
        elif single is not None:
            plain += single.replace(rb"\'", b"'")
        elif not plain:
            return arguments
        arguments.append(plain)
        position = match.end()


def _unescape(match: re.Match[bytes]) -> bytes:
    escaped = match[1]
    if len(escaped) > 1:
        return bytes([int(escaped[1:], 16)])
    return CONTROLS.get(escaped, escaped)
