"""The exceptions, by *who must act*. ``advice`` tells the user what to do, below the message."""


class PenstockError(Exception):
    """The base class. ``advice`` may be empty."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class ProtocolError(PenstockError):
    """A wire protocol was violated. Raise one of the two subclasses."""


class LocalProtocolError(ProtocolError):
    """Our side, or the caller of the API, did what the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what the protocol forbids."""


class Refused(PenstockError):  # noqa: N818 - a refusal is an answer, not an error
    """The broker refused a valid request: a limit, a credential or a permission."""


class AccessConflict(Refused):
    """Users or roles changed since the caller looked at them: look again and retry."""


class StorageError(PenstockError):
    """The store failed; the operator must act."""


class StorageFull(StorageError):  # noqa: N818 - reads as the state it names
    """The disk is full. Nothing was written; the next commit retries."""


class StorageBroken(StorageError):  # noqa: N818 - reads as the state it names
    """A write or flush failed, so the state of the disk is unknown.

    A later flush that succeeds proves nothing about this one. The process must end.
    """


class StorageDamaged(StorageError):  # noqa: N818 - reads as the state it names
    """The data on disk is not as it was written."""


class StorageForeign(StorageError):  # noqa: N818 - reads as the state it names
    """The data directory is not a Penstock store of this version."""


class StorageLocked(StorageError):  # noqa: N818 - reads as the state it names
    """Another process has this data directory open."""


class ClusterError(PenstockError):
    """The cluster cannot do it now. Nothing was acknowledged."""


class NoQuorum(ClusterError):  # noqa: N818 - reads as the state it names
    """Too few nodes are up, or there is no leader. It recovers by itself."""


class NotLeader(ClusterError):  # noqa: N818 - reads as the state it names
    """The node is not the leader; clients reach the leader at ``leader_addr``."""

    def __init__(self, leader: int, leader_addr: str) -> None:
        super().__init__(f"this node is not the leader; node {leader} is", f"use {leader_addr}")
        self.leader_addr = leader_addr


class LeadershipLost(ClusterError):  # noqa: N818 - reads as the state it names
    """Another node became leader before the request was done: retry."""


class ConfigError(PenstockError):
    """A configuration file, option, value, variable or flag is invalid."""
