"""What a client can meet, and what its user should do then.

::

    ClientError
    ├── UnreachableError      no connection could be made
    ├── RefusedError          the broker answered, and said no (also a ``Refused``)
    │   └── QueueRefusedError     with a code of the queue protocol; those it knows have classes:
    │       ├── BadRequestError       it does not understand the request, or the topic is none
    │       ├── NotLeaderError        another node of the cluster has to be asked
    │       ├── NoQuorumError         too few nodes of the cluster are up
    │       ├── RateLimitedError      there are messages, but the topic's rate allows none now
    │       ├── PayloadTooLargeError  more than the broker takes in one message
    │       ├── BootstrapFailedError  the list of nodes does not fit the one that was asked
    │       └── BrokerFailedError     the code ``internal``: something is wrong inside the broker
    ├── BrokerProtocolError   what answers does not speak our protocol (a ``RemoteProtocolError``)
    ├── ConnectionLostError   the connection ended in the middle of something
    ├── ReplyTimeoutError     the broker is silent
    ├── TakenOverError        another connection has our client id
    ├── LeaseLostError        jobs were somebody else's by then, or are about to be
    └── FailedJobsError       so many jobs failed that the worker would get no more

They read as one line, since a command that failed in a script is found in a log by its line. What
the *caller* did wrong (a wildcard in a topic, a QoS of 3) is a ``LocalProtocolError``; if it is an
argument that is out of bounds, an ``ArgumentError``, which is also a ``ValueError``.
"""

from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import LocalProtocolError, PenstockError, Refused, RemoteProtocolError


class ArgumentError(LocalProtocolError, ValueError):
    """An argument has a value that is not allowed; says which, and what is."""


class ClientError(PenstockError):
    """The conversation with the broker failed; the advice is part of the line."""

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}" if self.advice else self.message


class UnreachableError(ClientError):
    """There is no broker at this address, or no way to it."""


class RefusedError(ClientError, Refused):
    """The broker understood and said no."""


class BrokerProtocolError(ClientError, RemoteProtocolError):
    """The other end sent what no broker of this protocol may send."""


class ConnectionLostError(ClientError):
    """The connection ended before what was asked for was done."""


class ReplyTimeoutError(ClientError):
    """The broker did not answer in time."""


class TakenOverError(ClientError):
    """Another connection came with our client id. To come back would be to fight with it."""


class LeaseLostError(ClientError):
    """The lease of these ``jobs`` was over: what was said of them changed nothing.

    They are handed out again, or were; all others that were named with them are settled.
    """

    def __init__(self, jobs: Sequence[Any]) -> None:
        these = f"{len(jobs)} jobs" if len(jobs) > 1 else "a job"
        super().__init__(
            f"the lease of {these} was over, and the broker hands it to somebody else",
            "poll with a longer visibility_s, or extend the lease in time",
        )
        self.jobs = list(jobs)


class FailedJobsError(ClientError):
    """A worker holds so many failed jobs that it leaves, for the broker to deal them anew."""


_REFUSALS = {
    1: ("it does not speak MQTT 3.1.1", "connect to one that does"),
    2: ("it does not accept this client id", "choose another one, or none"),
    3: ("it is not available", "try again later; its /ready page says why"),
    4: ("user name or password is wrong", "check both"),
    5: ("this client is not authorised", "ask whoever runs the broker"),
}
"""The return codes of CONNACK in words, and what to do about each."""


def connect_refused(return_code: int) -> RefusedError:
    """Put a CONNACK that refuses into words."""
    reason, advice = _REFUSALS.get(return_code, (f"it gave code {return_code}", ""))
    return RefusedError(f"the broker refused the connection: {reason}", advice)


# ── The queue protocol ────────────────────────────────────────────────────────────────────────


class QueueRefusedError(RefusedError):
    """An error of the queue protocol; ``code`` is the broker's word for it."""

    code = ""
    guidance = ""
    """What to do about it, unless the instance knows better or the broker says it."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message, advice or self.guidance)

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again, until somebody changes something."""
        return self.code in FINAL_CODES


FINAL_CODES: Final = frozenset({"bad_request", "forbidden", "limit"})


class BadRequestError(QueueRefusedError):
    """The broker does not understand the request, or what it is about is none: a topic, say."""

    code = "bad_request"


class NotLeaderError(QueueRefusedError):
    """The node that was asked does not lead; ``leader_addr`` does, empty if it knows of none."""

    code = "not_leader"
    leader_addr = ""
    guidance = "is the cluster electing a leader? Then try again; else name more of its nodes"


class NoQuorumError(QueueRefusedError):
    """Too few nodes are up. What was asked for may have been done, or be done once they are."""

    code = "no_quorum"
    guidance = "start the other nodes: penstock cluster status names them"


class RateLimitedError(QueueRefusedError):
    """There is something, but the topic's rate allows none for ``retry_after_s``."""

    code = "rate_limited"
    retry_after_s = 0.0
    guidance = "poll again later, or with a wait_s: then the client waits for you"


class PayloadTooLargeError(QueueRefusedError):
    """One message may not be so large."""

    code = "payload_too_large"


class BootstrapFailedError(QueueRefusedError):
    """The node cannot begin a cluster of these nodes."""

    code = "bootstrap_failed"
    guidance = "the list must name the node that is asked, by its id"


class BrokerFailedError(QueueRefusedError):
    """Something went wrong inside the broker."""

    code = "internal"
    guidance = "its log says why"


_BY_CODE = {
    kind.code: kind
    for kind in (
        BadRequestError,
        NotLeaderError,
        NoQuorumError,
        RateLimitedError,
        PayloadTooLargeError,
        BootstrapFailedError,
        BrokerFailedError,
    )
}


UNKNOWN_KIND: Final = "no known kind"
"""In the broker's words when it does not know what kind of request it was sent."""


def queue_refused(
    code: str, message: str, leader_addr: str = "", retry_after_ms: int = 0
) -> QueueRefusedError:
    """Put an error of the queue protocol into words."""
    advice = "is the broker older than this client?" if UNKNOWN_KIND in message else ""
    kind = _BY_CODE.get(code, QueueRefusedError)
    error = kind(f"the broker refused ({code}): {message}", advice)
    error.code = code
    if isinstance(error, NotLeaderError):
        error.leader_addr = leader_addr
    elif isinstance(error, RateLimitedError):
        error.retry_after_s = retry_after_ms / 1000
    return error
