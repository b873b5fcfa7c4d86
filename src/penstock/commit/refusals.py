"""Why a batch was refused, as its clients are told and as it is counted."""

from typing import Final

from penstock.errors import ClusterError, LeadershipLost, NoQuorum, PenstockError, StorageFull
from penstock.obs.reasons import DisconnectReason, DropReason

_REASONS: Final[dict[type[PenstockError], DisconnectReason]] = {
    StorageFull: DisconnectReason.STORAGE_FULL,
    NoQuorum: DisconnectReason.NO_QUORUM,
    ClusterError: DisconnectReason.NO_QUORUM,  # this node was removed: others have the say
    LeadershipLost: DisconnectReason.LEADERSHIP_LOST,
}

_DROPS: Final = {
    DisconnectReason.STORAGE_FULL: DropReason.STORAGE_FULL,
    DisconnectReason.STORAGE_FAILED: DropReason.STORAGE_FAILED,
    DisconnectReason.NO_QUORUM: DropReason.NO_QUORUM,
    DisconnectReason.LEADERSHIP_LOST: DropReason.LEADERSHIP_LOST,
}


def reason_of(error: PenstockError) -> DisconnectReason:
    """What those are told whose commit failed."""
    return _REASONS.get(type(error), DisconnectReason.STORAGE_FAILED)


def drop_of(reason: DisconnectReason) -> DropReason:
    """What is counted of their messages."""
    return _DROPS[reason]
