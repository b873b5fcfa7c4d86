"""The shared subscriptions of one MQTT connection, as its packets name them.

What a member of a group is, and how it is given messages, is in
``doors/mqtt/shared_subscriptions``. Here stands when a connection becomes one: once its session has
the subscription, so after the SUBACK; and which acknowledgements are those of shared messages
rather than the session's.
"""

from collections.abc import Iterable
from typing import Protocol

from penstock.core.retained_delivery import SUBSCRIBE_FAILED
from penstock.core.session import PUBACK
from penstock.doors.mqtt.parts import MqttParts
from penstock.doors.mqtt.shared_subscriptions import Recipient, Sharing, is_shared, parse_share
from penstock.obs.reasons import DisconnectReason


class _Connection(Recipient, Protocol):
    """The connection whose subscriptions they are."""

    @property
    def number(self) -> int:
        """Its number."""


class MqttShares:
    """What a connection shares, if anything, and what it has asked to share."""

    __slots__ = ("_asked", "_connection", "_door", "_sharing")

    def __init__(self, door: MqttParts, connection: _Connection) -> None:
        self._door = door
        self._connection = connection
        self._sharing: Sharing | None = None
        self._asked: dict[int, list[tuple[bytes, int | None]]] = {}
        """By packet id, those in the line: with their QoS, or None where they are to end."""

    def note(self, packet_id: int, requests: Iterable[tuple[bytes, int | None]]) -> None:
        """Note what is to be shared, or no longer, once the session has it so."""
        shares = [(n, qos) for n, qos in requests if is_shared(n) and qos != SUBSCRIBE_FAILED]
        if shares:
            self._asked.setdefault(packet_id, []).extend(shares)

    def answered(self, packet_id: int) -> None:
        """The session has what that packet asked for."""
        if self._asked:
            self.take_up(self._asked.pop(packet_id, ()))

    def take_up(self, requests: Iterable[tuple[bytes, int | None]]) -> None:
        """Share what there is to share among the session's subscriptions, or no longer."""
        for name, qos in requests:
            share = parse_share(name) if is_shared(name) else None
            if share is not None and self._sharing is None:
                self._sharing = Sharing(self._door, self._connection, self._connection.number)
            if share is not None and self._sharing is not None:
                if qos is None:
                    self._sharing.unsubscribe(name)
                else:
                    self._sharing.subscribe(name, share, qos)

    def settle(self, kind: int, packet_ids: list[int]) -> list[int]:
        """Take acknowledgements of shared messages; the others are the session's."""
        sharing = self._sharing
        if sharing is None:
            return packet_ids
        shared = [packet_id for packet_id in packet_ids if sharing.holds(packet_id)]
        if shared and kind != PUBACK:
            detail = f"acknowledgement {kind} does not fit the QoS of packet {shared[0]}"
            self._connection.close(DisconnectReason.PROTOCOL_VIOLATION, detail)
            return []
        sharing.settle(shared)
        return [packet_id for packet_id in packet_ids if packet_id not in shared]

    def ask(self) -> None:
        """There may be room for shared messages again."""
        if self._sharing is not None:
            self._sharing.ask()

    def leave_all(self) -> None:
        """The connection ends: what was not acknowledged goes to others."""
        if self._sharing is not None:
            self._sharing.leave_all()
