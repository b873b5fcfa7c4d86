"""Which topics a bridge copies, in which direction, and how they are called on the other side.

A topic is the prefix of its side and the **bare** name: with ``local_prefix = "old/"`` and no
``remote_prefix`` the remote ``plant/1`` is the local ``old/plant/1``. Filters are bare.
"""

from enum import Enum
from typing import NamedTuple


class Direction(Enum):
    """Seen from this broker."""

    IN = "in"
    OUT = "out"


class Mapping(NamedTuple):
    """What one bridge copies."""

    filters_in: tuple[str, ...]
    filters_out: tuple[str, ...]
    local_prefix: str = ""
    remote_prefix: str = ""

    def subscriptions(self, direction: Direction) -> list[str]:
        """The filters to subscribe to, where messages of this direction come from."""
        if direction is Direction.IN:
            return [self.remote_prefix + bare for bare in self.filters_in]
        return [self.local_prefix + bare for bare in self.filters_out]

    def renamed(self, topic: str, direction: Direction) -> str | None:
        """The topic on the other side; None: it is not this bridge's (any more)."""
        here, there, filters = (
            (self.remote_prefix, self.local_prefix, self.filters_in)
            if direction is Direction.IN
            else (self.local_prefix, self.remote_prefix, self.filters_out)
        )
        bare = topic.removeprefix(here)
        if not topic.startswith(here) or not any(overlap(bare, one) for one in filters):
            return None
        return there + bare

    def echoes(self) -> tuple[str, str] | None:
        """A pair of filters, in and out, that have topics in common; None: there is none.

        What goes out by one would come in by the other, if the remote broker cannot be told to
        keep our own messages from us. Prefixes do not matter: both filters are of the bare names.
        """
        pairs = ((one, other) for one in self.filters_in for other in self.filters_out)
        return next((pair for pair in pairs if overlap(*pair)), None)


def overlap(one: str, other: str) -> bool:
    """Whether some topic matches both filters; a topic is a filter that only it matches."""
    return _overlap(one.split("/"), other.split("/"))


def _overlap(one: list[str], other: list[str]) -> bool:
    if one == ["#"] or other == ["#"]:  # also matches the level above
        return True
    if not one or not other:
        return not one and not other
    head, its = one[0], other[0]
    if "+" not in {head, its} and head != its:
        return False
    rest, other_rest = one[1:], other[1:]
    if not rest or not other_rest:
        return rest == other_rest or ["#"] in (rest, other_rest)
    return _overlap(rest, other_rest)
