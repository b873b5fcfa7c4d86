"""What a broker of MQTT 5 announces that it accepts; a client must not send more."""

from typing import Final

import msgspec

from penstock.client.errors import RefusedError
from penstock.wire.mqtt.packet import REMAINING_LENGTH_MAX
from penstock.wire.mqtt.properties import NONE, Properties

RECEIVE_MAXIMUM: Final = 65_535


class ServerLimits(msgspec.Struct, frozen=True):
    """The limits of CONNACK, or their defaults, which hold for 3.1.1 too."""

    receive_maximum: int = RECEIVE_MAXIMUM  # QoS 1 and 2 in flight
    packet_bytes_max: int = REMAINING_LENGTH_MAX + 5
    qos_max: int = 2
    has_retain: bool = True
    alias_max: int = 0
    session_expiry_s: int | None = None  # None: as we asked

    @classmethod
    def of(cls, connack: Properties) -> "ServerLimits":
        if connack is NONE:
            return _DEFAULT
        return cls(
            receive_maximum=connack.receive_maximum or RECEIVE_MAXIMUM,
            packet_bytes_max=connack.maximum_packet_size or REMAINING_LENGTH_MAX + 5,
            qos_max=2 if connack.maximum_qos is None else connack.maximum_qos,
            has_retain=connack.retain_available != 0,
            alias_max=connack.topic_alias_maximum or 0,
            session_expiry_s=connack.session_expiry,
        )

    def check(self, packet_bytes: int, qos: int, *, retain: bool) -> None:
        """Raises RefusedError about a PUBLISH that the broker would not take."""
        if qos > self.qos_max:
            what = f"the broker takes messages of QoS {self.qos_max} at most"
            raise RefusedError(what, f"publish with qos={self.qos_max}")
        if retain and not self.has_retain:
            raise RefusedError("the broker retains no messages", "publish without retain")
        if packet_bytes > self.packet_bytes_max:
            most = f"the broker takes {self.packet_bytes_max:,} at most"
            what = f"the message has {packet_bytes:,} bytes with its head, and {most}"
            raise RefusedError(what, "publish less at once; see limits.packet_bytes_max")


_DEFAULT: Final = ServerLimits()
