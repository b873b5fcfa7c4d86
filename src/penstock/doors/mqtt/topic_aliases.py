"""Topic aliases in packets to one client of MQTT 5: a number instead of a name sent before.

The first topics of a connection get one each and keep it: replacing them would cost most where
there are many topics. Bind one only for a packet that is written next: one that binds and does not
arrive would make all later ones unreadable.
"""

from penstock.limits import TOPIC_ALIASES_MAX
from penstock.wire.mqtt.sent_properties import alias_block

ALIAS_BYTES = 5  # of the property, and of lengths that grow with it


class TopicAliases:
    """The aliases of one connection."""

    __slots__ = ("_count_max", "_numbers")

    def __init__(self, alias_max: int) -> None:
        self._count_max = min(alias_max, TOPIC_ALIASES_MAX)
        self._numbers: dict[bytes, int] = {}

    def name(self, topic: bytes, room: int) -> tuple[bytes, bytes]:
        """What to send as topic, and the property to add. ``room``: bytes that may be added."""
        number = self._numbers.get(topic)
        if room < ALIAS_BYTES:
            return topic, b""
        if number is not None:
            return b"", alias_block(number)
        if len(self._numbers) >= self._count_max:
            return topic, b""
        number = self._numbers[topic] = len(self._numbers) + 1
        return topic, alias_block(number)
