"""Errors of the core, as its driver sees them."""

from enum import Enum


class ProposalDropReason(Enum):
    """Why a proposal was dropped. It is in no log, and may be made again."""

    NO_LEADER = "no leader is known; wait for an election"
    NOT_LEADER = "this node does not lead; propose to the leader"
    REMOVED = "this node is no longer a member; propose to another one"
    TRANSFER = "leadership is being transferred; propose again in a moment"
    UNCOMMITTED = "too much is uncommitted; wait until some of it is committed"
    MALFORMED = "the configuration change cannot be decoded"


class ProposalDropped(Exception):  # noqa: N818 - as etcd calls it
    """A proposal was dropped; ``reason`` says why, and what to do."""

    def __init__(self, reason: ProposalDropReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class LogDamaged(Exception):  # noqa: N818 - named for what has become of the log
    """A log lost something that it had acknowledged: ours, or that of a peer.

    Going on could fork history. The node must exit; it comes back under another id, as one that
    lost its disk.
    """
