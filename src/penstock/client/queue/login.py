"""How a client of the queue protocol logs in: one request, before anything else is sent."""

from penstock.client.credentials import Credentials
from penstock.client.errors import UNKNOWN_KIND
from penstock.client.queue.session import ResponseReader, refusal
from penstock.wire.queue import encode
from penstock.wire.queue._generated.queue_pb2 import Authenticate, Request


class QueueLogin:
    """Implements ``Login``."""

    def __init__(self, credentials: Credentials) -> None:
        secret = credentials.secret()
        if credentials.user:
            message = Authenticate(user=credentials.user, secret=secret)
        else:
            message = Authenticate(token=secret.decode(errors="replace"))
        self._request = encode.request(Request(authenticate=message, request_id=1))
        self._reader = ResponseReader()

    def begin(self) -> bytes:
        return self._request

    def receive(self, data: bytes) -> bytes | None:
        for response in self._reader.receive(data):
            is_refused = response.WhichOneof("kind") == "error"
            if is_refused and UNKNOWN_KIND not in response.error.message:
                raise refusal(response.error)
            return None  # an older broker knows no login, and no users
        return b""
