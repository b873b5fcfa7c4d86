"""Text from clients as one bounded line that is safe on a terminal and in a log.

Apart from the log, so that commands which only print do not load what writes it.
"""

from collections.abc import Callable

PRINTABLE_CHARACTERS_MAX = 64  # of text from clients: enough to recognise an id or a topic


def printable(text: bytes | str, limit: int = PRINTABLE_CHARACTERS_MAX) -> str:
    r"""Return ``text`` as at most ``limit`` characters that are safe on a terminal.

    Backslashes and what is not printable are escaped (``\n``, ``\x1b``); an ellipsis marks a cut.
    The work is bounded by ``limit``, not by the text.
    """
    return _shown(text, limit, _escape)


def on_one_line(text: bytes | str, limit: int) -> str:
    """As ``printable``, but backslashes stay: for sentences that quote what was escaped before."""
    return _shown(text, limit, lambda c: c if c == "\\" else _escape(c))


def _shown(text: bytes | str, limit: int, escape: Callable[[str], str]) -> str:
    head = text[: limit + 1] if isinstance(text, str) else _decode(text, limit + 1)
    shown = ""
    for character in head:
        piece = escape(character)
        if len(shown) + len(piece) > limit:
            return shown[: limit - 1] + "…"
        shown += piece
    return shown


def _decode(text: bytes, characters: int) -> str:
    # A character has at most four bytes.
    return text[: 4 * characters].decode("utf-8", "surrogateescape")[:characters]


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, kept by ``surrogateescape``
        return f"\\x{ord(character) - 0xDC00:02x}"
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape").decode("ascii")
