"""A subscription in one integer: its options, and its identifier in the bits above.

The lowest byte is the options byte of SUBSCRIBE with the granted QoS; a 3.1.1 subscription is its
QoS alone, and so is every row that former versions wrote. With bit 7 set the byte is no
subscription but the reason why a filter was refused, as SUBACK tells it::

    id << 8 | 0 0 rr p n qq     rr retain handling, p retain as published, n no local, qq QoS

What matters when a message is routed is ``routed``: retain handling only matters to SUBSCRIBE.

**Marks.** A subscription that is more than its QoS is *marked*. A subscriber gets one copy of a
message however many of its subscriptions match [MQTT5-3.3.4-2]: with the highest QoS, all
identifiers, and RETAIN as published if any of them asks for that. ``Marks`` is that sum for one
topic. A message of the subscriber's own leaves out those with no local, so ``Marks.own`` is the sum
of the others.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

OPTION_QOS: Final = 0b0000_0011
OPTION_NO_LOCAL: Final = 0b0000_0100
OPTION_RETAIN_AS_PUBLISHED: Final = 0b0000_1000
OPTION_RETAIN_HANDLING: Final = 0b0011_0000
RETAIN_HANDLING_SHIFT: Final = 4
REFUSAL: Final = 0b1000_0000
ID_SHIFT: Final = 8

# Retain handling: when a SUBSCRIBE brings retained messages.
RETAINED_ALWAYS, RETAINED_IF_NEW, RETAINED_NEVER = 0, 1, 2

SUBSCRIBE_FAILED = 0x80  # the only failure code of a 3.1.1 SUBACK


def is_refusal(options: int) -> bool:
    return bool(options & REFUSAL)


def qos_of(options: int) -> int:
    return options & OPTION_QOS


def id_of(options: int) -> int:
    """The subscription identifier; 0: none."""
    return options >> ID_SHIFT


def retain_handling_of(options: int) -> int:
    return (options & OPTION_RETAIN_HANDLING) >> RETAIN_HANDLING_SHIFT


def brings_retained(options: int, *, is_new: bool) -> bool:
    """Whether SUBSCRIBE is answered with retained messages [MQTT5-3.3.1-9] to [MQTT5-3.3.1-11].

    ``is_new``: the session did not have the filter.
    """
    handling = retain_handling_of(options)
    return handling == RETAINED_ALWAYS or (handling == RETAINED_IF_NEW and is_new)


def is_no_local(options: int) -> bool:
    return bool(options & OPTION_NO_LOCAL)


def is_retain_as_published(options: int) -> bool:
    return bool(options & OPTION_RETAIN_AS_PUBLISHED)


def code_of(options: int) -> int:
    """The code of SUBACK: the granted QoS, or why the filter was refused."""
    return options & 0xFF if options & REFUSAL else options & OPTION_QOS


def routed(options: int) -> int:
    return options & ~OPTION_RETAIN_HANDLING


def is_marked(options: int) -> bool:
    return options & ~OPTION_RETAIN_HANDLING > OPTION_QOS


class Marks(msgspec.Struct, frozen=True, gc=False):
    """What the matching subscriptions of one subscriber say together about a topic."""

    qos: int
    ids: tuple[int, ...]  # of all that have one, in ascending order; equal ones are repeated
    is_retain_as_published: bool
    # whether some want no messages of the subscriber's own; ``own``: what the others say, if any
    has_no_local: bool = False
    own: "Marks | None" = None

    @classmethod
    def of(cls, subscriptions: Iterable[int]) -> "Marks":
        """``subscriptions`` are the options of those that match; at least one."""
        all_options = list(subscriptions)
        others = [options for options in all_options if not options & OPTION_NO_LOCAL]
        has_no_local = len(others) < len(all_options)
        return cls(
            qos=max([options & OPTION_QOS for options in all_options]),
            ids=tuple(sorted([options >> ID_SHIFT for options in all_options if options >> 8])),
            is_retain_as_published=any(map(is_retain_as_published, all_options)),
            has_no_local=has_no_local,
            own=cls.of(others) if has_no_local and others else None,
        )

    def for_own(self) -> "Marks | None":
        """What counts for a message of the subscriber's own; None: it does not get it."""
        return self.own if self.has_no_local else self
