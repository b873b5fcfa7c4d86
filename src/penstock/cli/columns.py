"""Rows of text in columns, for people."""

from collections.abc import Sequence


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Align all columns but the last; a value too long for its column pushes only its own row."""
    widths = [min(max(map(len, column)), 40) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )


def counted(count: int, noun: str) -> str:
    """A number of things, as in "1 message" and "1,200 messages"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
