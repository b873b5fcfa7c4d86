"""Errors of the clients, each with advice for the user.

::

    ClientError
    ├── UnreachableError      no connection could be made
    │   └── TlsFailedError        no TLS: a certificate is not accepted, or the other end has none
    ├── RefusedError          the broker refused (also a ``Refused``)
    │   ├── LoginFailedError      it does not accept our credentials
    │   └── QueueRefusedError     with a code of the queue protocol; the known codes have classes:
    │       ├── BadRequestError       invalid request or topic
    │       ├── UnauthenticatedError  a wrong login, or none (also a ``LoginFailedError``)
    │       ├── NotAuthorizedError    the rules for this user do not allow it
    │       ├── NotLeaderError        another node of the cluster leads
    │       ├── NoQuorumError         too few nodes of the cluster are up
    │       ├── RateLimitedError      there are messages, but the topic's rate limit allows none now
    │       ├── PayloadTooLargeError  a message larger than the broker accepts
    │       ├── BootstrapFailedError  the list of nodes does not fit the node that was asked
    │       └── BrokerFailedError     the code ``internal``: an internal error of the broker
    ├── BrokerProtocolError   the answer is not in our protocol (also a ``RemoteProtocolError``)
    ├── ConnectionLostError   the connection was lost in the middle of something
    ├── ReplyTimeoutError     the broker did not answer in time
    ├── TakenOverError        another connection uses our client id
    ├── LeaseLostError        leases of jobs have expired
    └── FailedJobsError       a worker holds too many failed jobs to get more

Each reads as one line, for logs. Mistakes of the *caller* (a wildcard in a topic, a QoS of 3) are a
``LocalProtocolError``; arguments out of bounds an ``ArgumentError``, also a ``ValueError``.
"""

from collections.abc import Sequence
from typing import Any, Final

from penstock.errors import LocalProtocolError, PenstockError, Refused, RemoteProtocolError


class ArgumentError(LocalProtocolError, ValueError):
    """An argument has a value that is not allowed."""


class ClientError(PenstockError):
    """The base of all; the advice is part of the text."""

    reason_code = 0  # of MQTT 5, if the broker gave one
    server_reference = ""  # the server that the broker says to use instead

    def __str__(self) -> str:
        return f"{self.message}; {self.advice}" if self.advice else self.message


class UnreachableError(ClientError):
    """No connection could be made."""


class TlsFailedError(UnreachableError):
    """TLS could not be agreed on: a certificate is not accepted, or the other end has no TLS."""


class RefusedError(ClientError, Refused):
    """The broker refused the request; ``code`` is its word for it, if the protocol has one."""

    code = ""


class LoginFailedError(RefusedError):
    """The broker does not accept our credentials; a retry would be refused, too."""


class BrokerProtocolError(ClientError, RemoteProtocolError):
    """The other end violated the protocol: it may not be a broker."""


class ConnectionLostError(ClientError):
    """The connection was lost before the request was answered."""


class ReplyTimeoutError(ClientError):
    """The broker did not answer in time."""


class TakenOverError(ClientError):
    """Another connection uses our client id; reconnecting would take it over in turn."""


class LeaseLostError(ClientError):
    """The leases of these ``jobs`` had expired, and the call did not change them.

    They are or were delivered again; all other jobs of the call are settled.
    """

    def __init__(self, jobs: Sequence[Any]) -> None:
        these = f"the leases of {len(jobs)} jobs" if len(jobs) > 1 else "the lease of a job"
        super().__init__(
            f"{these} had expired: delivered again, perhaps to another consumer",
            "poll with a longer visibility_s, or extend the lease in time",
        )
        self.jobs = list(jobs)


class FailedJobsError(ClientError):
    """A worker holds too many failed jobs; it leaves, and the broker delivers them again."""


_REFUSALS = {
    1: ("it does not speak MQTT 3.1.1", "connect to one that does"),
    2: ("it does not accept this client id", "choose another one, or none"),
    3: ("it is not available", "try again later; its /ready page says why"),
    4: ("user name or password is wrong", "check them"),
    5: (
        "a login is required, or this user may not connect like this",
        "give a user and its password (credentials=, --user), or ask the administrator",
    ),
}  # by return code of CONNACK


def connect_refused(return_code: int) -> RefusedError:
    reason, advice = _REFUSALS.get(return_code, (f"it gave code {return_code}", ""))
    kind = LoginFailedError if return_code in {4, 5} else RefusedError
    return kind(f"the broker refused the connection: {reason}", advice)


class QueueRefusedError(RefusedError):
    """An error of the queue protocol, with its ``code``."""

    code = ""
    guidance = ""  # the advice, unless the instance has its own

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message, advice or self.guidance)

    @property
    def is_final(self) -> bool:
        """Whether a retry of the same request would be refused, too."""
        return self.code in FINAL_CODES


FINAL_CODES: Final = frozenset(
    {"bad_request", "forbidden", "limit", "unauthenticated", "not_authorized"}
)


class UnauthenticatedError(QueueRefusedError, LoginFailedError):
    """A wrong login, or none where one is required."""

    code = "unauthenticated"
    guidance = "give credentials=Credentials(user, password_file=…)"


class NotAuthorizedError(QueueRefusedError):
    """The rules for this user do not allow the request."""

    code = "not_authorized"
    guidance = "penstock acl check USER ACTION TOPIC names the rule that decides"


class BadRequestError(QueueRefusedError):
    """The request, or a name in it, is invalid."""

    code = "bad_request"


class NotLeaderError(QueueRefusedError):
    """The node does not lead; ``leader_addr`` is the leader, empty if unknown."""

    code = "not_leader"
    leader_addr = ""
    guidance = "is the cluster electing a leader? Then try again; else name more of its nodes"


class NoQuorumError(QueueRefusedError):
    """Too few nodes are up. The outcome is unknown: the request may yet take effect."""

    code = "no_quorum"
    guidance = "start the other nodes: penstock cluster status names them"


class RateLimitedError(QueueRefusedError):
    """There are messages, but the topic's rate limit allows none for ``retry_after_s``."""

    code = "rate_limited"
    retry_after_s = 0.0
    guidance = "poll again later, or with a wait_s: then the client waits for you"


class PayloadTooLargeError(QueueRefusedError):
    """A message is larger than the broker accepts."""

    code = "payload_too_large"


class BootstrapFailedError(QueueRefusedError):
    """The node cannot start a cluster of these nodes."""

    code = "bootstrap_failed"
    guidance = "the list must name the node that is asked, by its id"


class BrokerFailedError(QueueRefusedError):
    """An internal error of the broker."""

    code = "internal"
    guidance = "its log says why"


_BY_CODE = {kind.code: kind for kind in QueueRefusedError.__subclasses__()}

UNKNOWN_KIND: Final = "no known kind"  # in the broker's text about a request that it does not know


def queue_refused(
    code: str, message: str, leader_addr: str = "", retry_after_ms: int = 0
) -> QueueRefusedError:
    advice = "is the broker older than this client?" if UNKNOWN_KIND in message else ""
    kind = _BY_CODE.get(code, QueueRefusedError)
    error = kind(f"the broker refused ({code}): {message}", advice)
    error.code = code
    if isinstance(error, NotLeaderError):
        error.leader_addr = leader_addr
    elif isinstance(error, RateLimitedError):
        error.retry_after_s = retry_after_ms / 1000
    return error
