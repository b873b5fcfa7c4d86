"""The client's end of a connection: which commands a broker may send, and a client's requests.

The broker acknowledges or refuses requests in their order. The client chooses the sequence of a
request, which comes back in the ACK; the broker chooses that of a message, and the client's own ACK
names it. A command that no broker sends is a violation. A request that exceeds the broker's size
limits is refused here: the broker would close the connection. Topics may be as long as behind
HELLO.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

from penstock.errors import LocalProtocolError
from penstock.model.message import Signature
from penstock.wire.binary import encode, fast_paths
from penstock.wire.binary.events import (
    BinaryChallenge,
    BinaryPong,
    BinaryWelcome,
    Failed,
    ReceivedMessage,
    Withheld,
)
from penstock.wire.binary.fields import (
    FieldError,
    HelloFields,
    SubscribeFields,
    WelcomeFields,
    hello_bytes,
    read_welcome,
    subscribe_bytes,
)
from penstock.wire.binary.frame import (
    ACCEPTS_2,
    FRAME_BYTES_MAX,
    HEADER,
    TOPIC_BYTES_MAX_2,
    TOPIC_LEN_MAX,
    BinaryCommand,
    Frame,
    signature_of,
)
from penstock.wire.binary.machine import BinaryMachine, Decoder

_SIGNED_PUBLISHES: Final = {1: BinaryCommand.SIGNED_PUBLISH, 2: BinaryCommand.SIGNED_PUBLISH_2}


def publish(topic: bytes, payload: bytes, sequence: int) -> bytes:
    return _checked(topic, encode.frame(BinaryCommand.PUBLISH, sequence, topic, payload))


def publishes(topic: bytes, payloads: Sequence[bytes], first_sequence: int) -> bytes:
    _check_sizes(topic, HEADER.size + len(topic) + max(map(len, payloads), default=0))
    sequences = range(first_sequence, first_sequence + len(payloads))
    return encode.frames(BinaryCommand.PUBLISH, topic, payloads, sequences)


def signed_publish(topic: bytes, payload: bytes, sequence: int, signature: Signature) -> bytes:
    frame = encode.signed_frame(_SIGNED_PUBLISHES, topic, payload, sequence, signature)
    return _checked(topic, frame)


def publish_2(topic: bytes, payload: bytes, sequence: int, flags: int) -> bytes:
    """PUBLISH_2, which only brokers know that answered HELLO; ``flags``: ``PublishFlag``."""
    flagged = bytes([flags]) + payload
    frame = encode.frame(BinaryCommand.PUBLISH_2, sequence, topic, flagged)
    return _checked(topic, frame)


def hello(sequence: int, client_id: bytes, fields: HelloFields) -> bytes:
    return _checked(
        client_id, encode.frame(BinaryCommand.HELLO, sequence, client_id, hello_bytes(fields))
    )


def subscribe(
    sequence: int,
    topic: bytes,
    client_id: bytes = b"",
    accepts_version_2: bool = False,
    fields: SubscribeFields | None = None,
) -> bytes:
    """SUBSCRIBE; with a client id the broker remembers what that client has acknowledged."""
    field = _topic_field(topic, client_id)
    payload = ACCEPTS_2 if accepts_version_2 else b""
    if fields is not None:
        payload = ACCEPTS_2 + subscribe_bytes(fields)
    return _checked(field, encode.frame(BinaryCommand.SUBSCRIBE, sequence, field, payload))


def unsubscribe(sequence: int, topic: bytes) -> bytes:
    field = _topic_field(topic)
    return _checked(field, encode.frame(BinaryCommand.UNSUBSCRIBE, sequence, field))


def auth(sequence: int, user: bytes, secret: bytes = b"") -> bytes:
    """AUTH; without a secret the broker answers with a CHALLENGE to sign."""
    return _checked(user, encode.frame(BinaryCommand.AUTH, sequence, user, secret))


def ping() -> bytes:
    return encode.frame(BinaryCommand.PING, 0)


def _topic_field(topic: bytes, client_id: bytes = b"") -> bytes:
    if b"\0" in client_id:
        raise LocalProtocolError("client id contains NUL")
    # An empty id in front keeps a topic that has a NUL of its own in one piece.
    return client_id + b"\0" + topic if client_id or b"\0" in topic else topic


def _checked(field: bytes, frame: bytes) -> bytes:
    _check_sizes(field, len(frame))
    return frame


def _check_sizes(field: bytes, frame_bytes: int) -> None:
    if len(field) > TOPIC_BYTES_MAX_2:
        what = f"topic and client id of {len(field)} bytes exceed"
        raise LocalProtocolError(f"{what} the limit of {TOPIC_BYTES_MAX_2}")
    if frame_bytes > FRAME_BYTES_MAX:
        what = f"frame of {frame_bytes} bytes exceeds"
        raise LocalProtocolError(f"{what} the limit of {FRAME_BYTES_MAX}")


def _message(frame: Frame) -> ReceivedMessage:
    return ReceivedMessage(frame.topic, frame.payload, frame.sequence, None)


def _signed_message(frame: Frame) -> ReceivedMessage:
    return ReceivedMessage(frame.topic, frame.payload, frame.sequence, signature_of(frame))


def _error(frame: Frame) -> Failed:
    text, code = frame.payload.decode(errors="replace"), frame.topic.decode(errors="replace")
    return Failed(text, code, frame.sequence)


def _welcome(frame: Frame) -> BinaryWelcome:
    """A WELCOME that cannot be read grants nothing."""
    try:
        return BinaryWelcome(frame.sequence, read_welcome(frame.payload))
    except FieldError:
        return BinaryWelcome(frame.sequence, WelcomeFields())


def _withheld(frame: Frame) -> Withheld:
    return Withheld(frame.topic, frame.sequence, int.from_bytes(frame.payload, "big"))


def _challenge(frame: Frame) -> BinaryChallenge:
    return BinaryChallenge(frame.sequence, frame.payload)


def _pong(_frame: Frame) -> BinaryPong:
    return BinaryPong()


class BinaryClientMachine(BinaryMachine):
    """Bytes from a broker in, events out. Topics may be longer than a client may send."""

    __slots__ = ()

    _fast_paths: ClassVar[Mapping[int, fast_paths.FastPath]] = MappingProxyType(
        {BinaryCommand.ACK: fast_paths.acked}
    )
    _decoders: ClassVar[Mapping[int, Decoder]] = MappingProxyType(
        {
            BinaryCommand.MESSAGE: _message,
            BinaryCommand.SIGNED_MESSAGE: _signed_message,
            BinaryCommand.SIGNED_MESSAGE_2: _signed_message,
            BinaryCommand.ERROR: _error,
            BinaryCommand.PONG: _pong,
            BinaryCommand.CHALLENGE: _challenge,
            BinaryCommand.WELCOME: _welcome,
            BinaryCommand.WITHHELD: _withheld,
        }
    )

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__(frame_bytes_max, TOPIC_LEN_MAX)
