"""What a machine of the binary protocol reports.

Several events hold many frames: consecutive frames of one kind are merged within a chunk. Topics
are unchecked: any bytes, NUL included, empty too, up to the length limit. ``Violation`` is always
the last event.
"""

from typing import TypeAlias

import msgspec

from penstock.model.message import Signature
from penstock.wire.binary.fields import HelloFields, SubscribeFields, WelcomeFields
from penstock.wire.violation import Violation


class BinaryPublishRun(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PUBLISH frames to one topic, with a payload and a sequence each.

    Or PUBLISH_2 frames with the same flags (``PublishFlag``), which are not in the payloads.
    """

    topic: bytes
    payloads: list[bytes]
    sequences: list[int]
    flags: int = 0


class SignedPublish(msgspec.Struct, frozen=True, gc=False):
    """SIGNED_PUBLISH of either version; the signature is not verified."""

    sequence: int
    topic: bytes
    payload: bytes
    signature: Signature


class BinarySubscribe(msgspec.Struct, frozen=True, gc=False):
    """SUBSCRIBE; ``client_id`` is None if the client gave none."""

    sequence: int
    client_id: bytes | None
    topic: bytes
    accepts_version_2: bool
    fields: SubscribeFields = SubscribeFields()


class BinaryUnsubscribe(msgspec.Struct, frozen=True, gc=False):
    """UNSUBSCRIBE; without the client id that may precede the topic."""

    sequence: int
    topic: bytes


class BinaryAuth(msgspec.Struct, frozen=True, gc=False):
    """AUTH; without a secret it asks for a CHALLENGE."""

    sequence: int
    user: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"BinaryAuth(sequence={self.sequence}, …)"


class BinaryAcks(msgspec.Struct, frozen=True, gc=False):
    """Consecutive ACK frames of a client, with the sequences of the acknowledged messages."""

    sequences: list[int]


class Ping(msgspec.Struct, frozen=True, gc=False):
    """Consecutive PING frames; each expects a PONG."""

    count: int


class BinaryHello(msgspec.Struct, frozen=True, gc=False):
    """HELLO; ``client_id`` may be empty."""

    sequence: int
    client_id: bytes
    fields: HelloFields


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A request with fields that it cannot have; the connection stays open."""

    sequence: int
    command: str
    why: str


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A command that no client may send. Its frame was skipped; the connection stays open."""

    command: int
    sequence: int


class Acked(msgspec.Struct, frozen=True, gc=False):
    """Consecutive ACK frames of a broker, with the sequences of the completed requests."""

    sequences: list[int]


class ReceivedMessage(msgspec.Struct, frozen=True, gc=False):
    """MESSAGE, or SIGNED_MESSAGE of either version; the signature is not verified."""

    topic: bytes
    payload: bytes
    sequence: int
    signature: Signature | None


class BinaryChallenge(msgspec.Struct, frozen=True, gc=False):
    """CHALLENGE: answers the AUTH with this sequence; the next AUTH is to sign the nonce."""

    sequence: int
    nonce: bytes


class Failed(msgspec.Struct, frozen=True, gc=False):
    """ERROR; without a code word it does not name its request: replies come in their order."""

    text: str
    code: str = ""
    sequence: int = 0


class BinaryWelcome(msgspec.Struct, frozen=True, gc=False):
    """WELCOME: answers HELLO."""

    sequence: int
    fields: WelcomeFields


class Withheld(msgspec.Struct, frozen=True, gc=False):
    """WITHHELD: a message that is larger than this client takes; it may be acknowledged."""

    topic: bytes  # its beginning, if it did not fit
    sequence: int
    payload_bytes: int


class BinaryPong(msgspec.Struct, frozen=True, gc=False):
    """PONG."""


Event: TypeAlias = (
    Acked | BinaryAcks | BinaryAuth | BinaryChallenge | BinaryHello | BinaryWelcome | Failed
    | Malformed | Ping | BinaryPong | BinaryPublishRun | ReceivedMessage | SignedPublish
    | BinarySubscribe | Unknown | BinaryUnsubscribe | Violation | Withheld
)  # fmt: skip
