"""What a group has delivered: one message, its consumer, and questions about ranges of messages."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple

import msgspec

from penstock.core.commands import Claimed

NO_LEASE = -1
NEVER_MS = -1  # ``until_ms`` of a message that its consumer has given up for good


class Pending(msgspec.Struct, array_like=True, gc=False):
    """A message that was delivered and is not settled.

    ``consumer`` is empty if a lease identifies it, None if nobody has the message.
    """

    consumer: bytes | None
    taken_ms: int
    deliveries: int
    lease: int = NO_LEASE
    until_ms: int = 0  # in flight: deadline, 0 for none. Otherwise: not before, or NEVER_MS
    priority: int = 0
    reason: bytes = b""  # why it was last returned


class Consumer(msgspec.Struct, array_like=True):
    """When a consumer last asked, when it last got something, what it holds."""

    seen_ms: int
    active_ms: int
    pending: set[int]


class GroupDelivery(NamedTuple):
    """Offsets delivered to one consumer, each with its delivery count.

    ``lease`` is the number of the first one's lease; those of the others follow.
    """

    consumer: bytes
    offsets: list[int]
    deliveries: list[int]
    lease: int = NO_LEASE


def leases(ranges: Iterable[tuple[int, int]], known: dict[int, int]) -> Iterator[int]:
    """Lease numbers in some ranges; a wide range costs what exists, not its width."""
    for start, end in ranges:
        if end - start > len(known):
            yield from [lease for lease in known if start <= lease < end]
        else:
            yield from range(start, end)


def living(start: int, end: int, gone: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of ``start … end - 1`` without those that are gone."""
    for gone_start, gone_end in gone:
        if start < min(gone_start, end):
            yield start, min(gone_start, end)
        start = max(start, gone_end)
    if start < end:
        yield start, end


def lowest(pending: dict[int, Pending], low: int, end: int) -> int:
    """The lowest pending offset, or ``end``; none is below ``low``.

    It is nearly always a few steps from ``low``. All pending messages are searched only when that
    takes fewer steps.
    """
    for offset in range(low, min(end, low + len(pending) + 1)):
        if offset in pending:
            return offset
    return min(end, min(pending, default=end))


def contains(ranges: list[tuple[int, int]], offset: int) -> bool:
    place = bisect_right(ranges, offset, key=itemgetter(0)) - 1
    return place >= 0 and offset < ranges[place][1]


def may_claim(pending: Pending | None, command: Claimed) -> bool:
    """Whether a message may be claimed; ``pending`` is None if it was never delivered."""
    if pending is None:
        return command.forces
    if command.renews and pending.consumer != command.consumer:
        return False
    idle_ms = max(command.now_ms - pending.taken_ms, 0)  # the clock may have been set back
    return pending.consumer is None or idle_ms >= command.min_idle_ms
