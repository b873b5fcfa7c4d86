"""What can go wrong in the core, as those who drive it see it."""

from enum import Enum


class ProposalDropReason(Enum):
    """Why a proposal was not taken. Nothing of it is in any log, so it may be made again."""

    NO_LEADER = "no leader is known; wait for an election"
    NOT_LEADER = "this node does not lead; propose to the leader"
    REMOVED = "this node is no longer a member; propose to another one"
    TRANSFER = "leadership is being handed over; propose again in a moment"
    UNCOMMITTED = "too much is proposed and not committed; wait until some of it is"
    MALFORMED = "the change of the configuration cannot be read"


class ProposalDropped(Exception):  # noqa: N818 - as etcd calls it
    """A proposal was not taken; ``reason`` says why, and what to do."""

    def __init__(self, reason: ProposalDropReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class LogDamaged(Exception):  # noqa: N818 - named for what has become of the log
    """A log lost something that it had acknowledged: ours, or that of a peer.

    Going on would make two histories of one. The node must end; it comes back under another id, as
    one that lost its disk.
    """
