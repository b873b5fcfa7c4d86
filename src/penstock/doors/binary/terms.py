"""What one client and the broker have agreed on beyond version 1: HELLO and WELCOME.

A client that says HELLO names itself, once, behind its login. From then on its errors may carry
code words, its publishes may be deduplicated (``numbered``), messages that it cannot take are
withheld, and its own keep-alive decides how long it may be silent. Without HELLO nothing changes.

The client id alone disturbs nobody: another connection with the same id is closed when this one
subscribes, as in version 1. A later login as another user ends what belonged to the id.
"""

from hashlib import blake2b
from typing import Protocol

from penstock.access.logins import LoginRefusal
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies
from penstock.limits import KEEP_ALIVE_FACTOR
from penstock.model.message import OWN_PRODUCERS
from penstock.net.origin import Origin
from penstock.trust.principal import Principal
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, fault
from penstock.wire.binary.events import BinaryHello
from penstock.wire.binary.fields import Feature, WelcomeFields

PRODUCERS_MAX = 16  # keys of one connection whose names are remembered
SILENCE_S_MAX = 65_535  # that fits its field


class HelloClient(Protocol):
    """The connection of the client."""

    origin: Origin
    principal: Principal

    def fail(self, error: Fault, sequence: int) -> None: ...
    def keep_alive_changed(self) -> None: ...


class BinaryTerms:
    """The terms of one connection; those of version 1 until ``take``."""

    __slots__ = (
        "_epoch",
        "_is_agreed",
        "_producers",
        "client_id",
        "deduplicates",
        "frame_bytes_max",
        "has_codes",
        "silence_s",
    )

    def __init__(self) -> None:
        self.client_id = b""
        self.has_codes = False
        self.deduplicates = False
        self.frame_bytes_max = 0  # 0: the client takes any frame
        self.silence_s = 0.0  # 0: as long as any client
        self._epoch = b""
        self._is_agreed = False
        self._producers: dict[tuple[str, int | None], bytes] = {}

    def take(
        self, event: BinaryHello, door: BinaryParts, client: HelloClient, replies: OrderedReplies
    ) -> None:
        """Answer a HELLO."""
        error = self._fault(event, door) or self._named(event.client_id, door, client)
        if error is not None:
            client.fail(error, event.sequence)
            return
        self._agree(event)
        replies.answer(encode.welcome(event.sequence, self._welcome(door)))
        client.keep_alive_changed()

    def _fault(self, event: BinaryHello, door: BinaryParts) -> Fault | None:
        if self._is_agreed:
            return fault(ErrorCode.MALFORMED, command="HELLO", why="it may be said once")
        size, size_max = len(event.client_id), door.connections.limits.client_id_bytes_max
        if size > size_max:
            return _refused(f"{size} bytes are more than {size_max}")
        return _refused("it has a NUL") if b"\0" in event.client_id else None

    def _named(self, client_id: bytes, door: BinaryParts, client: HelloClient) -> Fault | None:
        """Name the principal, for rules with ``%c``; or why the user may not have this id."""
        if not client_id:
            return None
        named = door.logins.named(client.principal, client.origin, client_id)
        if isinstance(named, LoginRefusal):
            return _refused(named.text)
        client.principal = named
        return None

    def _agree(self, event: BinaryHello) -> None:
        asked = event.fields
        self._is_agreed = True
        self.client_id, self._epoch = event.client_id, asked.epoch
        self.has_codes = bool(asked.features & Feature.CODED_ERRORS)
        can_deduplicate = bool(event.client_id and asked.epoch)
        self.deduplicates = can_deduplicate and bool(asked.features & Feature.DEDUPLICATION)
        self.frame_bytes_max = asked.frame_bytes_max
        self.silence_s = asked.keep_alive_s * KEEP_ALIVE_FACTOR

    def _welcome(self, door: BinaryParts) -> WelcomeFields:
        limits = door.connections.limits
        granted = Feature.CODED_ERRORS * self.has_codes | Feature.DEDUPLICATION * self.deduplicates
        silence_s = min(int(self.silence_s or limits.idle_timeout_s), SILENCE_S_MAX)
        frame_bytes_max = min(limits.frame_bytes_max, 2**32 - 1)
        return WelcomeFields(granted, frame_bytes_max, silence_s, door.connections.wall_ms())

    def start_over(self) -> None:
        """Another user has logged in: the id, and its numbers, were the former one's."""
        self.client_id = self._epoch = b""
        self.deduplicates = False
        self._producers.clear()

    def producer(self, user: str, key_id: int | None = None) -> bytes:
        """Under which name publishes are numbered; a key has numbers of its own.

        So nobody who cannot publish as this user, or sign with this key, can use up its numbers.
        """
        known = self._producers.get((user, key_id))
        if known is None:
            if len(self._producers) >= PRODUCERS_MAX:
                self._producers.clear()
            known = self._producers[user, key_id] = self._producer(user, key_id)
        return known

    def _producer(self, user: str, key_id: int | None) -> bytes:
        signer = b"" if key_id is None else b"%d" % key_id
        parts = (user.encode(), self.client_id, self._epoch, signer)
        name = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return OWN_PRODUCERS + blake2b(name, digest_size=16).hexdigest().encode()

    def error(self, error: Fault, sequence: int) -> bytes:
        if self.has_codes:
            return encode.coded_error(error.code.word, sequence, error.text)
        return encode.error(error.text)


def _refused(why: str) -> Fault:
    return fault(ErrorCode.CLIENT_ID_REFUSED, why=why)
