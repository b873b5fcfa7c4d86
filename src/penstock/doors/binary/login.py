"""How one client of the binary protocol logs in: AUTH, and CHALLENGE for those who sign.

While a login is judged, whatever the client sent behind it is held. A failed login is answered with
an ERROR and ends the connection, so nothing behind it is ever handled. A login as another user ends
all subscriptions: they, and the client id, were the former user's.

A client that must log in and has not may do little: send AUTH, PING and signed publishes. Each
request counts, until a signed publish is accepted, and after ``STRANGER_REQUESTS_MAX`` the
connection ends. So what it is sent stays within 8 KiB, and it cannot stay long without a proof.
"""

import secrets
from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.access.logins import WRONG, Credentials, LoginRefusal
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies
from penstock.net.origin import Origin
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import Principal
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, fault
from penstock.wire.binary.events import BinaryAuth

NONCE_BYTES = 32
STRANGER_REQUESTS_MAX = 32


class LoginClient(Protocol):
    """The connection of the client."""

    origin: Origin
    client_id: bytes
    reason: DisconnectReason | None  # None while it is open

    def block_input(self) -> None: ...
    def unblock_input(self) -> None: ...

    def fail_last(self, error: Fault, sequence: int, reason: DisconnectReason, detail: str) -> None:
        """Answer a request with an error, and end the connection."""


class BinaryLogin:
    """Handles the AUTH commands of one connection."""

    __slots__ = ("_became", "_client", "_door", "_nonce", "_replies", "is_under_way")

    def __init__(
        self,
        door: BinaryParts,
        client: LoginClient,
        replies: OrderedReplies,
        became: Callable[[Principal], None],
    ) -> None:
        """``became``: the client has logged in as somebody."""
        self._door = door
        self._client = client
        self._replies = replies
        self._became = became
        self._nonce = b""  # of the challenge that is to be answered
        self.is_under_way = False

    def take(self, event: BinaryAuth) -> None:
        if self._door.broker.access.is_open:
            self._replies.answer(encode.ack(event.sequence))
            return
        if not event.secret:
            self._nonce = secrets.token_bytes(NONCE_BYTES)
            self._replies.answer(encode.challenge(event.sequence, self._nonce))
            return
        nonce, self._nonce = self._nonce, b""
        self.is_under_way = True
        self._client.block_input()
        done = partial(self._judged, event.sequence)
        try:
            user = event.user.decode()
        except UnicodeDecodeError:
            done(WRONG)
            return
        credentials = Credentials(user, event.secret, self._client.client_id, nonce)
        self._door.logins.log_in(self._client.origin, "binary", credentials, done)

    def _judged(self, sequence: int, result: Principal | LoginRefusal) -> None:
        """Answer. The input stays blocked if the login failed: nothing behind it is handled."""
        client = self._client
        if client.reason is not None:
            return
        if isinstance(result, LoginRefusal):
            reason, text = result.reason, result.text
            client.fail_last(fault(ErrorCode.LOGIN_FAILED, why=text), sequence, reason, text)
            return
        self.is_under_way = False
        self._became(result)
        self._replies.answer(encode.ack(sequence))
        client.unblock_input()
