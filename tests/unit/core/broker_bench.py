"""A broker on its own, without a disk or a socket, and one line per thing that happens to it."""

from typing import Any

from penstock.core.broker import Broker
from penstock.core.commands import (
    Acknowledged,
    Closed,
    DeliveriesLost,
    Published,
    Repeated,
    SessionOpened,
    Subscribed,
    WillMessage,
)
from penstock.core.effects import Effects, FollowUp
from penstock.obs.counters import Counters

WILL = WillMessage(b"last/words", b"bye", 1, retain=False)


class Bench:
    """A broker, and one line per event; each is its own entry."""

    def __init__(self, **limits: Any) -> None:
        self.counters = Counters()
        self.broker = Broker(self.counters, **limits)
        self.sequence = 1
        self.connections = 0

    def apply(self, command: Any, outlet: Any = None) -> Effects:
        effects = Effects()
        self.broker.begin(self.broker.index + 1, self.sequence)
        self.broker.apply(command, outlet, effects)
        return effects

    def open(self, name: str, *, clean: bool = False, will: WillMessage | None = None) -> Effects:
        """Connect; the outlet is the name with the number of the connection: ``ann#1``."""
        self.connections += 1
        opened = SessionOpened(name.encode(), self.connections, clean, will)
        return self.apply(opened, f"{name}#{self.connections}")

    def close(self, name: str, connection: int | None = None) -> Effects:
        session = self.broker.sessions.get(name.encode())
        number = session.connection if connection is None and session else connection or 0
        return self.apply(Closed(name.encode(), number, 9_000))

    def subscribe(self, name: str, *requests: tuple[bytes, int]) -> Effects:
        """SUBSCRIBE, with the second step that a durable session's has."""
        effects = self.ask(name, *requests)
        for control in effects.controls:
            if isinstance(control, FollowUp):
                return self.apply(control.command, control.waiter)
        return effects

    def ask(self, name: str, *requests: tuple[bytes, int]) -> Effects:
        """SUBSCRIBE, the first step only."""
        session = self.broker.sessions[name.encode()]
        return self.apply(Subscribed(name.encode(), 77, list(requests)), session.client)

    def repeat(self, name: str, *packet_ids: int) -> Effects:
        """PUBLISH again, while the first copy was on its way."""
        session = self.broker.sessions[name.encode()]
        return self.apply(Repeated(name.encode(), list(packet_ids)), session.client)

    def lose(self, name: str, *packet_ids: int) -> Effects:
        session = self.broker.sessions[name.encode()]
        return self.apply(DeliveriesLost(name.encode(), session.connection, list(packet_ids)))

    def publish(
        self, topic: bytes, *payloads: bytes, qos: int = 1, retain: bool = False, outlet: Any = None
    ) -> Effects:
        packet_ids = list(range(50, 50 + len(payloads)))
        message = Published(topic, list(payloads), qos, retain, 0, 5_000, packet_ids)
        effects = self.apply(message, outlet)
        self.sequence += len(payloads)
        return effects

    def acknowledge(self, name: str, kind: int, *packet_ids: int) -> Effects:
        session = self.broker.sessions[name.encode()]
        return self.apply(Acknowledged(name.encode(), kind, list(packet_ids)), session.client)

    def restarted(self) -> "Bench":
        """A bench whose broker was loaded from the rows of this one."""
        again = Bench()
        for client_id in self.broker.sessions:
            row = self.broker.session_row(client_id)
            if row is not None:
                again.broker.begin_recovery()
                again.broker.load_session(row)
        return again


def kinds(effects: Effects) -> list[type]:
    return [type(control) for control in effects.controls]
