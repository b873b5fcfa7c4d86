"""What a machine of the binary protocol reports; nouns from the protocol.

Runs are what a busy socket is made of, so three events of the server and one of the client carry
many frames at once: ``BinaryPublishRun`` (one topic), ``BinaryAcks``, ``Ping``, ``Acked``. Frames
of one kind that follow one another are taken together only within a chunk, so the same stream cut
elsewhere gives other runs with the same frames in the same order.

Topics are raw slices that nobody has looked at: any bytes, NUL included, empty too. All that is
known of them is that they are no longer than the limit.

``Violation`` is always the last event: the machine is closed and looks at nothing that follows.
"""

from typing import TypeAlias

import msgspec

from penstock.model.message import Signature
from penstock.wire.violation import Violation

# ── Seen by a broker ──────────────────────────────────────────────────────────────────────────


class BinaryPublishRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PUBLISH frames to one topic; a payload and a sequence each, in order."""

    topic: bytes
    payloads: list[bytes]
    sequences: list[int]


class SignedPublish(msgspec.Struct, frozen=True, gc=False):
    """SIGNED_PUBLISH of either version; the signature has not been verified."""

    sequence: int
    topic: bytes
    payload: bytes
    signature: Signature


class BinarySubscribe(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE; ``client_id`` is None for a client that did not give one."""

    sequence: int
    client_id: bytes | None
    topic: bytes
    accepts_version_2: bool


class BinaryUnsubscribe(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE; a client id in front of the topic has been taken off."""

    sequence: int
    topic: bytes


class BinaryAcks(msgspec.Struct, frozen=True, gc=False):
    """Consecutive ACK frames of a client: the sequences of the messages it has dealt with."""

    sequences: list[int]


class Ping(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PING frames; each wants its PONG."""

    count: int


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A command that no client may send. Its frame was skipped; the connection may go on."""

    command: int


# ── Seen by a client ──────────────────────────────────────────────────────────────────────────


class Acked(msgspec.Struct, frozen=True, gc=False):
    """Consecutive ACK frames of a broker: the sequences of the requests it has carried out."""

    sequences: list[int]


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """MESSAGE, or SIGNED_MESSAGE of either version; the signature has not been verified."""

    topic: bytes
    payload: bytes
    sequence: int
    signature: Signature | None


class Failed(msgspec.Struct, frozen=True, gc=False):
    """ERROR. It does not say which request it answers; replies come in the order of requests."""

    text: str


class BinaryPong(msgspec.Struct, frozen=True, gc=False):
    """PONG."""


Event: TypeAlias = (
    Acked
    | BinaryAcks
    | Failed
    | Ping
    | BinaryPong
    | BinaryPublishRun
    | ReceivedMessage
    | SignedPublish
    | BinarySubscribe
    | Unknown
    | BinaryUnsubscribe
    | Violation
)  # whatever ``receive`` of a machine may return
