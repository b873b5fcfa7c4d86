"""Whether two nodes of a cluster are configured alike, where that matters.

Nodes apply the same journal, and must come to the same state: a session's window and queue, say,
are bounded by the configuration, and what does not fit is dropped. What a door decides before
it is journaled (which messages are captured, which topics demand a signature) does no harm if it
differs; but clients would find another broker at each node. So nodes tell each other a digest of
all such settings, and take no part together if it differs. It has a few bytes for each setting, so
that whoever runs the nodes is told which one it is.
"""

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from penstock.config.schema import Config

STATE_VERSION = 2
"""Raised whenever the same journal comes to another state than before, or has events that an
earlier version does not know: a node that cannot apply an entry ends."""

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
    """Bytes that are the same on nodes which agree."""
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
    """Name the settings in which two nodes differ; none if one of them is not known (empty)."""
    if one == other or not one or not other:
        return ()
    if not len(one) == len(other) == DIGEST_BYTES or _piece(one, 0) != _piece(other, 0):
        return (_VERSION,)
    places = range(0, DIGEST_BYTES, _PIECE_BYTES)
    pieces = zip(_NAMES, places, strict=True)
    return tuple(name for name, at in pieces if _piece(one, at) != _piece(other, at))


def _piece(digest: bytes, at: int) -> bytes:
    return digest[at : at + _PIECE_BYTES]
