"""A digest of the settings that must be the same on all nodes of a cluster.

Nodes apply the same journal and must reach the same state, which some limits affect: a session
drops what does not fit into its queue. Nodes refuse each other if the digest differs. It has a few
bytes per setting, so that the error can name the setting.
"""

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from penstock.config.schema import Config

STATE_VERSION = 4
"""Increment it when the same journal leads to another state, or has events that an earlier version
does not know: a node that cannot apply an entry stops."""

_PIECE_BYTES = 4

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
_VERSION = "the version of Penstock"
_NAMES = (
    _VERSION,
    *(f"limits.{name}" for name in _LIMITS),
    *(f"journal.{name}" for name in _JOURNAL),
    "retention",
    "signing",
)

DIGEST_BYTES = _PIECE_BYTES * len(_NAMES)


def settings_digest(config: Config) -> bytes:
    return b"".join(_pieces(config))


def _pieces(config: Config) -> Iterator[bytes]:
    values = (
        STATE_VERSION,
        *(getattr(config.limits, name) for name in _LIMITS),
        *(getattr(config.journal, name) for name in _JOURNAL),
        config.retention,
        config.signing,
    )
    for value in values:
        encoded = msgspec.json.encode(value, order="deterministic")
        yield blake2b(encoded, digest_size=_PIECE_BYTES).digest()


def differing(one: bytes, other: bytes) -> tuple[str, ...]:
    """Name the settings in which two nodes differ; none if one digest is unknown (empty)."""
    if one == other or not one or not other:
        return ()
    if not len(one) == len(other) == DIGEST_BYTES or _piece(one, 0) != _piece(other, 0):
        return (_VERSION,)
    pieces = zip(_NAMES, range(0, DIGEST_BYTES, _PIECE_BYTES), strict=True)
    return tuple(name for name, at in pieces if _piece(one, at) != _piece(other, at))


def _piece(digest: bytes, at: int) -> bytes:
    return digest[at : at + _PIECE_BYTES]
