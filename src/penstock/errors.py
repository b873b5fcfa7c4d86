"""Every error Penstock raises, by *who must act*.

::

    PenstockError
    ├── ProtocolError        a peer broke a protocol
    │   ├── LocalProtocolError    we (or the caller of our API) did
    │   └── RemoteProtocolError   they did
    ├── Refused              not a bug: a limit, a credential, a permission; carries the reason
    ├── StorageError         the operator must look at the disk or the data directory
    │   ├── StorageFull           no room; the broker tries again by itself
    │   ├── StorageBroken         a write or flush failed: the process ends
    │   ├── StorageDamaged        what is on disk is not what was written
    │   ├── StorageForeign        the directory holds something not ours, or of another version
    │   └── StorageLocked         another broker has it open
    ├── ClusterError         the cluster cannot do it now; it may be asked again
    │   ├── NoQuorum              too few of its nodes are up
    │   ├── NotLeader             another node has to be asked; carries where it is
    │   └── LeadershipLost        another node leads by now, and has not done it
    └── ConfigError          a file, key or value is wrong; says which and what to write instead

Errors that a user can meet say what to do about them: ``advice`` is printed under the message.
"""


class PenstockError(Exception):
    """The root. ``advice`` tells the reader what to do next; it may be empty."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class ProtocolError(PenstockError):
    """A rule of a wire protocol was broken. Raise one of the two children."""


class LocalProtocolError(ProtocolError):
    """Our side, or the caller of our API, asked for what the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer sent what the protocol forbids."""


class Refused(PenstockError):  # noqa: N818 - a refusal is an answer, not an error
    """The broker understood and said no: a limit, a credential or a permission."""


class StorageError(PenstockError):
    """The store cannot do its work; the operator must look."""


class StorageFull(StorageError):  # noqa: N818 - reads as the state it names
    """There is no room. Nothing was written; the next commit tries again."""


class StorageBroken(StorageError):  # noqa: N818 - reads as the state it names
    """The disk failed while something was being written or flushed: nobody knows what it holds.

    A later flush that succeeds proves nothing about this one. The process must end.
    """


class StorageDamaged(StorageError):  # noqa: N818 - reads as the state it names
    """A checksum, a version or an order on disk is not as it was written."""


class StorageForeign(StorageError):  # noqa: N818 - reads as the state it names
    """The data directory holds something that is not a Penstock store of this version."""


class StorageLocked(StorageError):  # noqa: N818 - reads as the state it names
    """Another process has this data directory open."""


class ClusterError(PenstockError):
    """The nodes of a cluster cannot agree on it now. Nothing was acknowledged."""


class NoQuorum(ClusterError):  # noqa: N818 - reads as the state it names
    """Too few nodes are up, or none of them leads. It goes on by itself once they are back."""


class NotLeader(ClusterError):  # noqa: N818 - reads as the state it names
    """The node that was asked does not lead; clients reach the one that does at ``leader_addr``."""

    def __init__(self, leader: int, leader_addr: str) -> None:
        super().__init__(
            f"this node does not lead; node {leader} does", f"ask it, at {leader_addr}"
        )
        self.leader_addr = leader_addr


class LeadershipLost(ClusterError):  # noqa: N818 - reads as the state it names
    """Only the leader may decide it, and meanwhile another node leads: ask again."""


class ConfigError(PenstockError):
    """A configuration file, key, value, variable or flag is wrong."""
