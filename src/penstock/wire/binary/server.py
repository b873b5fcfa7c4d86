"""The broker's end of a connection: what a client may say, and who reads it.

======================  ===========================================================================
PUBLISH, ACK, PING      come in runs: their lanes read them
SUBSCRIBE, UNSUBSCRIBE  the topic field is ``topic`` or ``client_id NUL topic``
SIGNED_PUBLISH, ..._2   one event each: verifying one costs a hundred times what reading it does
SIGNED_MESSAGE, ..._2   skipped without a word, as brokers of this protocol always did
all others              skipped and reported, so that the client can be told
======================  ===========================================================================

So the broker does not hang up on a command that it does not know; it takes the frame to have no
trailer. If that was wrong, what follows will not look like a frame for long, and that is the end.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from penstock.wire.binary import lanes
from penstock.wire.binary.events import SignedPublish, Subscribe, Unknown, Unsubscribe
from penstock.wire.binary.frame import (
    ACCEPTS_2,
    FRAME_BYTES_MAX,
    TOPIC_BYTES_MAX,
    Command,
    Frame,
    signature_of,
)
from penstock.wire.binary.machine import Decoder, Machine


def _split(field: bytes) -> tuple[bytes | None, bytes]:
    """Return client id and topic. The first NUL divides them: a topic may have others."""
    client_id, separator, topic = field.partition(b"\0")
    return (client_id or None, topic) if separator else (None, field)


def _subscribe(frame: Frame) -> Subscribe:
    client_id, topic = _split(frame.topic)
    return Subscribe(frame.sequence, client_id, topic, frame.payload.startswith(ACCEPTS_2))


def _unsubscribe(frame: Frame) -> Unsubscribe:
    _, topic = _split(frame.topic)
    return Unsubscribe(frame.sequence, topic)


def _signed_publish(frame: Frame) -> SignedPublish:
    return SignedPublish(frame.sequence, frame.topic, frame.payload, signature_of(frame))


def _unknown(frame: Frame) -> Unknown:
    return Unknown(frame.command)


def _nothing(_frame: Frame) -> None:
    """A frame that is neither answered nor refused."""


class ServerMachine(Machine):
    """Bytes from a client in, events out; see the module."""

    __slots__ = ()

    _lanes: ClassVar[Mapping[int, lanes.Lane]] = MappingProxyType(
        {
            Command.PUBLISH: lanes.publish_runs,
            Command.ACK: lanes.acks,
            Command.PING: lanes.pings,
        }
    )
    _decoders: ClassVar[Mapping[int, Decoder]] = MappingProxyType(
        {
            **dict.fromkeys(range(256), _unknown),
            Command.SUBSCRIBE: _subscribe,
            Command.UNSUBSCRIBE: _unsubscribe,
            Command.SIGNED_PUBLISH: _signed_publish,
            Command.SIGNED_PUBLISH_2: _signed_publish,
            Command.SIGNED_MESSAGE: _nothing,
            Command.SIGNED_MESSAGE_2: _nothing,
        }
    )

    def __init__(
        self,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        topic_bytes_max: int = TOPIC_BYTES_MAX,
    ) -> None:
        super().__init__(frame_bytes_max, topic_bytes_max)
