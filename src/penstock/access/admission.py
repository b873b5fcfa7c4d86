"""Which topics may be published to, and under which conditions; the same for every door.

A topic is looked at when it is new to the route cache. What was found is remembered with the route,
as flags in its ``policy``, so that a message costs one look at an integer.
"""

from penstock.config.schema import Limits
from penstock.model.topic import topic_fault
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason

CAPTURED = 1
"""Live messages of the topic are journaled in the background."""

SIGNED_ONLY = 2
"""The topic refuses what is not signed."""

ENVELOPES = 4
"""Messages of the topic are signed ones for another, in an envelope."""

FORBIDDEN = 8
"""Nobody may publish to the topic."""

ENVELOPE_PREFIX = b"$signed/"
"""What goes before a topic when a signature travels within the payload: MQTT has no other place."""

RESERVED = (b"$SYS", b"$dlq", b"$share", b"$stage")
"""First levels of topics that only the broker writes, or nobody: those of shared subscriptions."""


def topic_refusal(topic: bytes, limits: Limits) -> tuple[DisconnectReason, str] | None:
    """Say why nobody may publish to a topic; None if it is well-formed and free."""
    fault = topic_fault(topic, limits.topic_bytes_max, limits.topic_levels_max)
    fault = fault or _utf8_fault(topic)
    if fault:
        return DisconnectReason.TOPIC_INVALID, f"topic {printable(topic)}: {fault}"
    if topic.startswith(b"$") and topic.partition(b"/")[0] in RESERVED:
        return DisconnectReason.TOPIC_RESERVED, f"topic {printable(topic)}"
    return None


def _utf8_fault(topic: bytes) -> str:
    try:
        topic.decode()
    except UnicodeDecodeError:
        return "not UTF-8"  # [MQTT-1.5.3-1]
    return ""
