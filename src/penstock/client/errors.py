"""What a client can meet, and what its user should do then.

::

    ClientError
    ├── UnreachableError      no connection could be made
    ├── RefusedError          the broker answered, and said no (also a ``Refused``)
    ├── BrokerProtocolError   what answers does not speak our protocol (a ``RemoteProtocolError``)
    ├── ConnectionLostError   the connection ended in the middle of something
    ├── ReplyTimeoutError     the broker is silent
    ├── TakenOverError        another connection has our client id
    └── FailedJobsError       so many jobs failed that the worker would get no more

They read as one line, since a command that failed in a script is found in a log by its line. What
the *caller* did wrong (a wildcard in a topic, a QoS of 3) is a ``LocalProtocolError``.
"""

from penstock.errors import PenstockError, Refused, RemoteProtocolError

__all__ = [
    "BrokerProtocolError",
    "ClientError",
    "ConnectionLostError",
    "FailedJobsError",
    "RefusedError",
    "ReplyTimeoutError",
    "TakenOverError",
    "UnreachableError",
    "connect_refused",
]


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
