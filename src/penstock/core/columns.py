"""Columns of numbers that grow at the end and are used up from the front."""

from collections.abc import MutableSequence


def cut_front(columns: tuple[MutableSequence[int], ...], passed: int) -> int:
    """Cut ``passed`` entries off all columns once they are the majority; return how many remain.

    Cutting moves all entries that stay, so it waits until those are fewer than the ones that go.
    Until then readers start after the passed entries.
    """
    if passed * 2 <= len(columns[0]):
        return passed
    for column in columns:
        del column[:passed]
    return 0
