"""A violation of any protocol: the last event that a machine reports before it closes."""

import msgspec

from penstock.obs.reasons import DisconnectReason


class Violation(msgspec.Struct, frozen=True, gc=False):
    """The peer broke the protocol or exceeded a limit.

    ``detail`` is one line of bounded length for the log. ``error`` is what the broker sends to the
    client before it closes, in protocols that have an error reply.
    """

    reason: DisconnectReason
    detail: str
    error: bytes = b""
