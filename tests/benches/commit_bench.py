"""A pipeline on a store that commits only when the test says so, or not at all."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from penstock.commit.pipeline import Pipeline
from penstock.core.broker import Broker
from penstock.core.effects import Effects, FollowUp
from penstock.errors import StorageError  # noqa: TC001
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason  # noqa: TC001
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import Commit
from penstock.testing import VirtualClock
from tests.cluster.lone_node import LoneNode


class GatedStore(MemoryStore):
    """Commits wait at the gate while it is shut; ``error``, when set, is what they come to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.error: StorageError | None = None
        self.attempts = 0

    def commit(self, batch: Batch) -> Commit:
        self.attempts += 1
        assert self.gate.wait(10)
        if self.error is not None:
            raise self.error
        return super().commit(batch)


class Timers:
    """The loop of a pipeline; notes which timers it set, and can fire them all at any time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._set: list[tuple[float, Callable[[], object]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay_s: float, act: Callable[..., object], *arguments: Any) -> Any:
        self._set.append((delay_s, partial(act, *arguments)))
        return self._loop.call_later(delay_s, act, *arguments)

    @property
    def delays(self) -> list[float]:
        return [delay_s for delay_s, _ in self._set]

    def fire(self) -> None:
        for _, act in self._set:
            act()


class Bench:
    """Everything around one pipeline; ``applied`` is what the broker was given, in order."""

    def __init__(self, **options: Any) -> None:
        self.store = GatedStore()
        self.counters = Counters()
        self.broker = Broker(self.counters)
        self.clock = VirtualClock()
        self.applied: list[Any] = []
        self.refused: list[tuple[Any, DisconnectReason]] = []
        self.effects: list[Effects] = []
        self._apply = self.broker.apply
        self.broker.apply = self._note  # type: ignore[method-assign]
        self.pipeline = Pipeline(
            broker=self.broker,
            store=self.store,
            log=LoneNode(self.store),
            clock=self.clock,
            counters=self.counters,
            execute=self._execute,
            refuse=lambda outlet, reason: self.refused.append((outlet, reason)),
            **options,
        )
        self.timers = Timers(asyncio.get_running_loop())
        self.pipeline._loop = self.timers  # type: ignore[assignment]

    def _note(self, command: Any, outlet: Any, effects: Effects) -> None:
        self.applied.append(command)
        self._apply(command, outlet, effects)

    def _execute(self, effects: Effects) -> None:
        if effects.controls or effects.deliveries or effects.acks:
            self.effects.append(effects)
        for control in effects.controls:
            if isinstance(control, FollowUp):
                self.pipeline.submit(control.command, control.outlet, durable=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.store.gate.set()
        self.pipeline.close()
        await turns(3)


async def turns(count: int = 3) -> None:
    """Let the loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread is about to bring; only a failing test waits that long."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the other thread knows of no event
            await asyncio.sleep(0.001)
