"""Columns of numbers that grow at the end and are used up from the front."""

from collections.abc import MutableSequence


def cut_front(columns: tuple[MutableSequence[int], ...], passed: int) -> int:
    """Cut ``passed`` entries off all columns once they are most; return how many are left to cut.

    Cutting moves all that stays, so it waits until that is less than what goes: each entry pays for
    moving one other. Until then readers begin behind the entries that are passed.
    """
    if passed * 2 <= len(columns[0]):
        return passed
    for column in columns:
        del column[:passed]
    return 0
