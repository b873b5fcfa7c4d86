"""The broker's end of a connection: which commands a client may send, and what reads them.

PUBLISH, ACK and PING come in runs, read by fast paths. The topic field of SUBSCRIBE and UNSUBSCRIBE
is ``topic`` or ``client_id NUL topic``. Signed messages are ignored, as brokers of this protocol
always did. Unknown commands are assumed to have no trailer, skipped and reported.

A client that has yet to log in gets a smaller limit on frames, until ``trust`` is called or it
sends AUTH with a secret: what follows it in the same chunk may be as large as that of others, and
the door reads no further before the login is judged. Topics may be longer behind a HELLO.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from penstock.wire.binary import fast_paths
from penstock.wire.binary.events import (
    BinaryAuth,
    BinaryHello,
    BinarySubscribe,
    BinaryUnsubscribe,
    Event,
    Malformed,
    SignedPublish,
    Unknown,
)
from penstock.wire.binary.fields import FieldError, read_hello, read_subscribe
from penstock.wire.binary.frame import (
    ACCEPTS_2,
    FRAME_BYTES_MAX,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_MAX_2,
    BinaryCommand,
    Frame,
    FrameLimits,
    signature_of,
)
from penstock.wire.binary.machine import BinaryMachine, Decoder


def _split(field: bytes) -> tuple[bytes | None, bytes]:
    client_id, separator, topic = field.partition(b"\0")
    return (client_id or None, topic) if separator else (None, field)


def _subscribe(frame: Frame) -> BinarySubscribe | Malformed:
    client_id, topic = _split(frame.topic)
    if not frame.payload.startswith(ACCEPTS_2):
        return BinarySubscribe(frame.sequence, client_id, topic, False)
    try:
        fields = read_subscribe(frame.payload[len(ACCEPTS_2) :])
    except FieldError as fault:
        return Malformed(frame.sequence, "SUBSCRIBE", str(fault))
    return BinarySubscribe(frame.sequence, client_id, topic, True, fields)


def _unsubscribe(frame: Frame) -> BinaryUnsubscribe:
    _, topic = _split(frame.topic)
    return BinaryUnsubscribe(frame.sequence, topic)


def _signed_publish(frame: Frame) -> SignedPublish:
    return SignedPublish(frame.sequence, frame.topic, frame.payload, signature_of(frame))


def _auth(frame: Frame) -> BinaryAuth:
    return BinaryAuth(frame.sequence, frame.topic, frame.payload)


def _hello(frame: Frame) -> BinaryHello | Malformed:
    try:
        return BinaryHello(frame.sequence, frame.topic, read_hello(frame.payload))
    except FieldError as fault:
        return Malformed(frame.sequence, "HELLO", str(fault))


def _unknown(frame: Frame) -> Unknown:
    return Unknown(frame.command, frame.sequence)


def _nothing(_frame: Frame) -> None: ...


class BinaryServerMachine(BinaryMachine):
    """Bytes from a client in, events out."""

    __slots__ = ("_topic_bytes_max_2", "_trusted")

    _fast_paths: ClassVar[Mapping[int, fast_paths.FastPath]] = MappingProxyType(
        {
            BinaryCommand.PUBLISH: fast_paths.publish_runs,
            BinaryCommand.PUBLISH_2: fast_paths.flagged_runs,
            BinaryCommand.ACK: fast_paths.acks,
            BinaryCommand.PING: fast_paths.pings,
        }
    )
    _decoders: ClassVar[Mapping[int, Decoder]] = MappingProxyType(
        {
            **dict.fromkeys(range(256), _unknown),
            BinaryCommand.SUBSCRIBE: _subscribe,
            BinaryCommand.UNSUBSCRIBE: _unsubscribe,
            BinaryCommand.SIGNED_PUBLISH: _signed_publish,
            BinaryCommand.SIGNED_PUBLISH_2: _signed_publish,
            BinaryCommand.AUTH: _auth,
            BinaryCommand.HELLO: _hello,
            BinaryCommand.SIGNED_MESSAGE: _nothing,
            BinaryCommand.SIGNED_MESSAGE_2: _nothing,
        }
    )

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        topic_bytes_max: int = TOPIC_BYTES_MAX,
        stranger_bytes_max: int = FRAME_BYTES_MAX,
        topic_bytes_max_2: int = TOPIC_BYTES_MAX_2,
    ) -> None:
        super().__init__(min(frame_bytes_max, stranger_bytes_max), topic_bytes_max)
        self._trusted = FrameLimits(frame_bytes_max, topic_bytes_max)
        self._topic_bytes_max_2 = max(topic_bytes_max, topic_bytes_max_2)

    def trust(self) -> None:
        """Accept frames of the full size from now on."""
        self._limits = self._trusted

    def _read(self, data: bytes, position: int, events: list[Event]) -> int:
        following = super()._read(data, position, events)
        event = events[-1] if events else None
        if type(event) is BinaryAuth and event.secret:
            self.trust()
        elif type(event) is BinaryHello:
            self._trusted = self._trusted._replace(topic_bytes_max=self._topic_bytes_max_2)
            self._limits = self._limits._replace(topic_bytes_max=self._topic_bytes_max_2)
        return following
