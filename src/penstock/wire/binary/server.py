"""The broker's end of a connection: which commands a client may send, and what reads them.

PUBLISH, ACK and PING come in runs, read by fast paths. The topic field of SUBSCRIBE and UNSUBSCRIBE
is ``topic`` or ``client_id NUL topic``. Signed messages are ignored, as brokers of this protocol
always did. Unknown commands are assumed to have no trailer, skipped and reported.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from penstock.wire.binary import fast_paths
from penstock.wire.binary.events import BinarySubscribe, BinaryUnsubscribe, SignedPublish, Unknown
from penstock.wire.binary.frame import (
    ACCEPTS_2,
    FRAME_BYTES_MAX,
    TOPIC_BYTES_MAX,
    BinaryCommand,
    Frame,
    signature_of,
)
from penstock.wire.binary.machine import BinaryMachine, Decoder


def _split(field: bytes) -> tuple[bytes | None, bytes]:
    client_id, separator, topic = field.partition(b"\0")
    return (client_id or None, topic) if separator else (None, field)


def _subscribe(frame: Frame) -> BinarySubscribe:
    client_id, topic = _split(frame.topic)
    return BinarySubscribe(frame.sequence, client_id, topic, frame.payload.startswith(ACCEPTS_2))


def _unsubscribe(frame: Frame) -> BinaryUnsubscribe:
    _, topic = _split(frame.topic)
    return BinaryUnsubscribe(frame.sequence, topic)


def _signed_publish(frame: Frame) -> SignedPublish:
    return SignedPublish(frame.sequence, frame.topic, frame.payload, signature_of(frame))


def _unknown(frame: Frame) -> Unknown:
    return Unknown(frame.command)


def _nothing(_frame: Frame) -> None: ...


class BinaryServerMachine(BinaryMachine):
    """Bytes from a client in, events out."""

    __slots__ = ()

    _fast_paths: ClassVar[Mapping[int, fast_paths.FastPath]] = MappingProxyType(
        {
            BinaryCommand.PUBLISH: fast_paths.publish_runs,
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
            BinaryCommand.SIGNED_MESSAGE: _nothing,
            BinaryCommand.SIGNED_MESSAGE_2: _nothing,
        }
    )

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, topic_bytes_max: int = TOPIC_BYTES_MAX
    ) -> None:
        super().__init__(frame_bytes_max, topic_bytes_max)
