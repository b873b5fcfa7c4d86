"""Cutting lists: by number, and by the size of the answer."""

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from penstock.api.cursors import cursor_of
from penstock.cluster.asking import QUESTION_BYTES_MAX
from penstock.limits import API_ANSWER_BYTES_MAX, KIB

_Item = TypeVar("_Item")
_Row = TypeVar("_Row")

BYTES_MAX = API_ANSWER_BYTES_MAX - 64 * KIB  # what is around the rows
BYTES_FOR_NODE = QUESTION_BYTES_MAX - 64 * KIB  # if another node asks; it asks again for the rest


class Part(NamedTuple, Generic[_Row]):
    """The first rows of a list, and the cursor of the rest; None: there is no more."""

    items: list[_Row]
    next: str | None


def first_of(
    of: str,
    items: Iterable[_Item],
    limit: int,
    describe: Callable[[_Item], _Row],
    key: Callable[[_Item], object],
    bytes_max: int = BYTES_MAX,
) -> Part[_Row]:
    """Cut a list after ``limit`` rows, or when the answer is large; ``of`` is its name."""
    rows: list[_Row] = []
    size = 0
    last: _Item | None = None
    for item in items:
        if len(rows) == limit:
            assert last is not None
            return Part(rows, cursor_of(of, key(last)))
        row = describe(item)
        size += len(msgspec.json.encode(row)) + 1
        if rows and size > bytes_max:
            assert last is not None
            return Part(rows, cursor_of(of, key(last)))
        rows.append(row)
        last = item
    return Part(rows, None)
