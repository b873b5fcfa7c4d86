"""What a group has handed out: one message, who has it, and questions about stretches of them."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

import msgspec

from penstock.core.commands import Claimed

NO_LEASE = -1


class Pending(msgspec.Struct, array_like=True, gc=False):
    """A message handed out and not settled.

    ``consumer`` is empty where a lease says whose it is, None if nobody has it (any more).
    """

    consumer: bytes | None
    taken_ms: int
    deliveries: int
    lease: int = NO_LEASE
    until_ms: int = 0  # with somebody: until when, 0 for no end. With nobody: not before.
    priority: int = 0
    reason: bytes = b""  # why it was last given back


class Consumer(msgspec.Struct, array_like=True):
    """A consumer of a group: when it last asked, when it last got something, what it holds."""

    seen_ms: int
    active_ms: int
    pending: set[int]


class GroupDelivery(NamedTuple):
    """What one consumer got: offsets, each with how often it was delivered by now.

    ``lease`` is the number of the first one's lease; those of the others follow.
    """

    consumer: bytes
    offsets: list[int]
    deliveries: list[int]
    lease: int = NO_LEASE


def leases(stretches: Iterable[tuple[int, int]], known: dict[int, int]) -> Iterator[int]:
    """Lease numbers in some stretches; a wide one costs what is there, not its width."""
    for start, end in stretches:
        if end - start > len(known):
            yield from [lease for lease in known if start <= lease < end]
        else:
            yield from range(start, end)


def living(start: int, end: int, gone: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The stretches of ``start … end - 1`` that are left without those that are gone."""
    for gone_start, gone_end in gone:
        if start < min(gone_start, end):
            yield start, min(gone_start, end)
        start = max(start, gone_end)
    if start < end:
        yield start, end


def lowest(pending: dict[int, Pending], low: int, end: int) -> int:
    """The lowest offset that is pending, or ``end``; nothing below ``low`` is.

    Nearly always it is found a few steps from ``low``, where messages were settled since. Looking
    through all that is pending is left for when that would take more steps than there are messages.
    """
    for offset in range(low, min(end, low + len(pending) + 1)):
        if offset in pending:
            return offset
    return min(end, min(pending, default=end))


def contains(stretches: list[tuple[int, int]], offset: int) -> bool:
    """Whether an offset lies in one of the stretches, which ascend."""
    place = bisect_right(stretches, offset, key=itemgetter(0)) - 1
    return place >= 0 and offset < stretches[place][1]


def may_claim(pending: Pending | None, command: Claimed) -> bool:
    """Whether a message may change hands; None: nobody was ever given it."""
    if pending is None:
        return command.forces
    if command.renews and pending.consumer != command.consumer:
        return False
    idle_ms = max(command.now_ms - pending.taken_ms, 0)  # the clock may have been set back
    return pending.consumer is None or idle_ms >= command.min_idle_ms
