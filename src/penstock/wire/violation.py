"""A violation of any protocol: the last event that a machine reports before it closes."""

import msgspec

from penstock.obs.reasons import DisconnectReason


class Violation(msgspec.Struct, frozen=True, gc=False):
    """The peer broke the protocol: ``detail`` is for the log, ``error`` is sent to the client."""

    reason: DisconnectReason
    detail: str
    error: bytes = b""
