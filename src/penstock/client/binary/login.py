"""How a client of the binary protocol logs in: AUTH, with a secret or a signed nonce."""

from penstock.client.credentials import Credentials
from penstock.client.errors import (
    BrokerProtocolError,
    ClientError,
    LoginFailedError,
    UnreachableError,
)
from penstock.wire.binary import client
from penstock.wire.binary.client import BinaryClientMachine
from penstock.wire.binary.events import Acked, BinaryChallenge, Failed

SEQUENCE = 1
_FAILED = "Login failed: "
_TRY = "; try a"  # again, or another node: in the text of a login that may succeed later
_UNKNOWN = "Unknown command"  # of a broker that has no users yet


class BinaryLogin:
    """Implements ``Login``."""

    def __init__(self, credentials: Credentials) -> None:
        self._key = credentials.signing_key()
        self._user = f"key:{self._key.key_id}" if self._key else credentials.user
        self._secret = credentials.secret()
        self._machine = BinaryClientMachine()

    def begin(self) -> bytes:
        return client.auth(SEQUENCE, self._user.encode(), self._secret)

    def receive(self, data: bytes) -> bytes | None:
        for event in self._machine.receive(data):
            match event:
                case Acked():
                    return None
                case BinaryChallenge() if self._key is not None:
                    proof = self._key.sign_login(event.nonce)
                    return client.auth(SEQUENCE + 1, self._user.encode(), proof)
                case Failed() if event.text.startswith(_UNKNOWN):
                    return None
                case Failed():
                    raise _refused(event.text)
                case _:
                    what = "the answer to the login is not in the binary protocol"
                    raise BrokerProtocolError(what, "is this the address of a broker?")
        return b""


def _refused(text: str) -> ClientError:
    reason = text.removeprefix(_FAILED).removesuffix(" — connection closed")
    if _TRY in reason:
        return UnreachableError(f"the broker cannot log us in now: {reason}")
    return LoginFailedError(f"the broker refused the login: {reason}")
