"""The operations of the clients, once for both forms, as coroutines over a ``BinaryLink``.

The asyncio clients await them over streams. The blocking ones give them a link that blocks instead
of suspending (``sync``).
"""

from collections.abc import Callable, Iterable
from math import inf
from typing import Protocol, Self

from penstock.client.binary.inbox import Message, log
from penstock.client.binary.manager import LINGER_S, ConnectionManager
from penstock.client.binary.session import Request
from penstock.client.errors import ClientError
from penstock.errors import PenstockError


class BinaryLink(Protocol):
    """The connection of a client, or the next one."""

    async def open(self) -> None: ...

    async def abandon(self) -> None:
        """Close the connection without a word."""

    async def answered(self, request: Request, timeout_s: float = inf) -> bool:
        """Send everything, and wait for the answer to a request; false after the time."""

    async def until(self, done: Callable[[], bool], timeout_s: float = inf) -> bool:
        """Send everything, and wait until something is so; false after the time."""

    def is_open(self) -> bool: ...

    def is_turn_due(self) -> bool:
        """Whether acknowledgements should be sent before the next message is handed out."""


class BinaryOperations:
    """Beginning and end, for all clients."""

    def __init__(self, manager: ConnectionManager, link: BinaryLink) -> None:
        self._manager = manager
        self._session = manager.session
        self._inbox = manager.inbox
        self._link = link

    async def open(self) -> Self:
        """Connect; the ``async with`` statement does so."""
        await self._link.open()
        return self

    async def close(self) -> None:
        """Close once the broker has all acknowledgements; the ``async with`` statement does so."""
        if self._link.is_open() and not self._session.acks.is_settled:
            self._manager.is_leaving = True
            try:
                if not await self._link.answered(self._session.barrier(), LINGER_S):
                    log.warning("closed before the broker confirmed the last acknowledgements")
            except ClientError as error:
                log.warning("closed without the broker: %s", error)
        await self._link.abandon()

    async def abandon(self) -> None:
        """Close the connection without a word, as a crash would."""
        await self._link.abandon()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self._inbox.settle()
        await self.close()

    async def _answered(self, request: Request) -> None:
        await self._link.answered(request)
        request.check()


class PublishOperations(BinaryOperations):
    """What publishers do."""

    async def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish; return when the broker's disk has it. ``RefusedError``: the broker refused.

        ``retain``: keep it for those who subscribe later, as the topic's last value; an empty
        payload clears that.
        """
        await self._answered(self._session.publish(topic, payload, retain=retain))

    async def publish_many(
        self, topic: str, payloads: Iterable[bytes]
    ) -> list[PenstockError | None]:
        """Publish in order, many in flight at once; return for each the refusal, or None."""
        requests = []
        for payload in payloads:
            requests.append(self._session.try_publish(topic, payload))
            if self._manager.is_crowded:
                await self._link.until(lambda: self._manager.has_room)
        await self._link.until(lambda: all(request.is_done for request in reversed(requests)))
        return [request.refusal for request in requests]


class SubscribeOperations(BinaryOperations):
    """What subscribers do."""

    @property
    def lost(self) -> int:
        """Messages that retention removed before they could be read."""
        return self._inbox.lost

    @property
    def withheld(self) -> int:
        """Messages that had to be verified and could not be."""
        return self._inbox.withheld

    async def subscribe(self, topic: str) -> None:
        """Subscribe to one more topic; return when all its history has arrived."""
        await self._answered(self._session.subscribe(topic))

    async def unsubscribe(self, topic: str) -> None:
        """Get nothing more of a topic; what has arrived is still handed out."""
        await self._answered(self._session.unsubscribe(topic))

    async def receive(self, timeout_s: float = inf) -> Message | None:
        """Wait for a message; return None after ``timeout_s``.

        With ``auto_ack`` the call acknowledges the message before.
        """
        self._inbox.settle()
        if not self._inbox.arrived or self._link.is_turn_due():
            await self._link.until(lambda: bool(self._inbox.arrived), timeout_s)
        return self._inbox.give()

    async def flush(self) -> None:
        """Wait until the broker's disk has all acknowledgements up to now.

        While a topic's history is still arriving, the broker answers behind it: all of it is then
        read, and kept until it is handed out.
        """
        await self._answered(self._session.barrier())
