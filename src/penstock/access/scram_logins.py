"""A login by SCRAM-SHA-256 that is under way, between the client's first and its last message.

Nothing slow happens here: the broker compares HMACs. All names are answered alike. Whoever is not
there, has no verifier or may not log in gets a challenge all the same, and fails at the end.
"""

import os
from base64 import b64encode
from collections.abc import Callable

from penstock.errors import RemoteProtocolError
from penstock.trust.rows import User
from penstock.trust.scram import ClientFirst, ScramServer
from penstock.trust.scram_verifier import Verifier, made_up_verifier, read_verifier

NONCE_BYTES = 18

UNPREPARED = (
    "there is no SCRAM verifier of this password: log in with it once without SCRAM, or set it"
    " again: penstock users password"
)
NOT_CHOSEN = "this user has no chosen password, which SCRAM needs: log in without SCRAM, over TLS"


class ScramLogin:
    """Send ``first``; ``finish`` with the client's answer; if that was right, send ``last``."""

    __slots__ = ("_judge", "_server", "last", "user")

    def __init__(
        self, client: ClientFirst, verifier: Verifier, judge: Callable[[bool], None]
    ) -> None:
        """``judge`` is called once, with whether the proof is right."""
        nonce = b64encode(os.urandom(NONCE_BYTES))
        self._server = ScramServer(client, verifier, nonce)
        self._judge = judge
        self.user = client.user
        self.last = b""

    @property
    def first(self) -> bytes:
        return self._server.first

    def finish(self, message: bytes) -> None:
        try:
            answer = self._server.finish(message)
        except RemoteProtocolError:
            answer = None
        self.last = answer or b""
        self._judge(answer is not None)


def verifier_for(user: User | None, name: str, salt_key: bytes, iterations: int) -> Verifier:
    """What to challenge somebody of this name with; nobody can fit one that is made up."""
    found = user and read_verifier(user.scram, user.password)
    return found or made_up_verifier(salt_key, name, iterations)
