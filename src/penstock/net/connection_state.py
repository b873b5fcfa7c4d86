"""What every connection keeps, apart from what it does with it: most of them are idle.

The kernel has a compiled form: a connection takes a third less memory with it, and a read of
ordinary packets looks nothing up (``kernel/publishes.pyx``).
"""

from typing import TYPE_CHECKING

from penstock import kernel

__all__ = ["ConnectionState"]


class ConnectionState:
    """The fields of a connection; ``net.connection`` says what they mean."""

    __slots__ = (
        "_blocks",
        "_checked_next",
        "_connections",
        "_has_spoken",
        "_held",
        "_is_holder",
        "_is_over_quota",
        "_is_reading_paused",
        "_is_resuming",
        "_is_turn_over",
        "_last_packet_at",
        "_machine",
        "_transport",
        "_unknown_since",
        "meter",
        "number",
        "origin",
        "outbox",
        "principal",
        "reason",
    )


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.connection_state import ConnectionState
