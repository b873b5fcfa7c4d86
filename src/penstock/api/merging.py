"""Pages of several nodes as one page: in order, each item once, nothing left out unseen.

All nodes are asked for the page after the same cursor. A page that was cut says nothing about what
is behind its last item, so the merged page ends there at the latest.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

_Item = TypeVar("_Item")

_Key = tuple[bytes, str | bytes]


class NodePage(NamedTuple, Generic[_Item]):
    """What one node answered; ``is_cut``: it has more."""

    items: Sequence[_Item]
    is_cut: bool


def merged(
    pages: Iterable[NodePage[_Item]], limit: int, key: Callable[[_Item], _Key]
) -> tuple[list[_Item], bool]:
    """The first items of all pages, and whether there are more; equal keys are one item."""
    found: dict[_Key, _Item] = {}
    ends: list[_Key] = []
    for page in pages:
        for item in page.items:
            found.setdefault(key(item), item)
        if page.is_cut and page.items:
            ends.append(key(page.items[-1]))
    end = min(ends, default=None)
    kept = sorted(at for at in found if end is None or at <= end)[:limit]
    return [found[at] for at in kept], end is not None or len(kept) < len(found)
