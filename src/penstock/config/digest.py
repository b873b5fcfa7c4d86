"""Whether two nodes of a cluster are configured alike, where that matters.

Nodes apply the same journal, and must come to the same state: a session's window and queue, say,
are bounded by the configuration, and what does not fit is dropped. What a door decides before
it is journaled (which messages are captured, which topics demand a signature) does no harm if it
differs; but clients would find another broker at each node. So nodes tell each other a digest of
all such settings, and whoever runs them is told where it differs.
"""

from hashlib import blake2b

import msgspec

from penstock.config.schema import Config

__all__ = ["DIGEST_BYTES", "STATE_VERSION", "settings_digest"]

DIGEST_BYTES = 8

STATE_VERSION = 1
"""Raised whenever the same journal comes to another state than before."""

_LIMITS = (
    "inflight_max",
    "queue_messages_max",
    "queue_full",
    "retained_max",
    "sessions_max",
    "session_expiry_s",
    "subscriber_expiry_s",
    "subscriptions_max",
    "client_id_bytes_max",
    "topic_bytes_max",
    "topic_levels_max",
    "sinks_max",
    "staged_bytes_max",
    "stage_expiry_s",
)
_JOURNAL = ("capture", "capture_exclude", "total_bytes_max")


def settings_digest(config: Config) -> bytes:
    """A few bytes that are the same on nodes which agree."""
    settings = (
        STATE_VERSION,
        [(name, getattr(config.limits, name)) for name in _LIMITS],
        [(name, getattr(config.journal, name)) for name in _JOURNAL],
        config.retention,
        config.signing,
    )
    encoded = msgspec.json.encode(settings, order="deterministic")
    return blake2b(encoded, digest_size=DIGEST_BYTES).digest()
