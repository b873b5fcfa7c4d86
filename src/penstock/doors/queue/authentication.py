"""Authenticate: who the client is.

What the client sends behind it waits for the answer. After a wrong login nothing runs, whatever
the connection was allowed before: the requests behind it meant another user. The third wrong one
closes the connection.
"""

from penstock.access.logins import Credentials, LoginFault, LoginRefusal
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.replies import Slot
from penstock.trust.principal import Principal
from penstock.wire.queue._generated.queue_pb2 import Authenticate
from penstock.wire.queue.faults import (
    BAD_REQUEST,
    NOT_AUTHORIZED,
    RATE_LIMITED,
    UNAUTHENTICATED,
    Fault,
)

LOGINS_MAX = 3  # wrong ones, then the connection is closed
BUSY_MS = 1_000  # when to try again, if nothing else is known

LOG_IN_FIRST = Fault(UNAUTHENTICATED, "a login is required")
_UNKNOWN_MECHANISM = Fault(
    BAD_REQUEST, "mechanism: there is none but the empty one; send user and secret, or token"
)
_CODES = {
    LoginFault.WRONG: UNAUTHENTICATED,
    LoginFault.BUSY: RATE_LIMITED,
    LoginFault.UNAVAILABLE: RATE_LIMITED,
    LoginFault.BANNED: NOT_AUTHORIZED,
    LoginFault.NOT_ALLOWED: NOT_AUTHORIZED,
}


def authenticate(client: Requester, message: Authenticate, slot: Slot) -> None:
    if message.mechanism:
        slot.fail(_UNKNOWN_MECHANISM)
        return
    secret = message.token.encode() or message.secret

    def done(outcome: Principal | LoginRefusal) -> None:
        if isinstance(outcome, Principal):
            client.logged_in(outcome)
            slot.ok()
        else:
            slot.fail(login_fault(outcome))
            client.login_failed(outcome)

    client.log_in(Credentials(message.user, secret), done)


def login_fault(refusal: LoginRefusal) -> Fault:
    code = _CODES[refusal.fault]
    retry_ms = int(refusal.retry_after_s * 1000)
    return Fault(code, refusal.text, retry_ms or (BUSY_MS if code == RATE_LIMITED else 0))
