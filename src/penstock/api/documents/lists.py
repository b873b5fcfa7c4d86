"""What all lists have in common."""

import msgspec


class Missing(msgspec.Struct, frozen=True):
    """A node whose part of a list is missing, and why: ``not_reached``, ``too_slow``, ..."""

    node: int
    reason: str
