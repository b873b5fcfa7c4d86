"""A pipeline on a store that commits only when the test says so, or not at all."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from penstock.commit.feed import Feed
from penstock.commit.pipeline import Pipeline
from penstock.commit.settings import PipelineSettings
from penstock.config.schema import Config, Journal
from penstock.core.broker import Broker
from penstock.core.effects import Effects, FollowUp
from penstock.errors import StorageError
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason
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


class Named:
    """A client that notes with its bench why it was refused."""

    def __init__(self, bench: "Bench", name: Any) -> None:
        self._bench = bench
        self._name = name

    def __eq__(self, other: object) -> bool:
        return self._name == (other._name if isinstance(other, Named) else other)

    def __hash__(self) -> int:
        return hash(self._name)

    def refused(self, reason: DisconnectReason, _detail: str = "") -> None:
        self._bench.refused.append((self._name, reason))


def _settings(
    *,
    durability: str = "sync",
    journal_bytes_max: int | None = None,
    **journal: int,
) -> PipelineSettings:
    interval = {k: journal.pop(k) for k in ("durability_interval_ms",) if k in journal}
    if journal_bytes_max is not None:
        journal["total_bytes_max"] = journal_bytes_max
    defaults = {"capture_interval_ms": 20}
    config = Config(durability=durability, journal=Journal(**(defaults | journal)), **interval)  # type: ignore[arg-type]
    return PipelineSettings.of(config)


class Bench:
    """Everything around one pipeline; ``applied`` is what the broker was given, in order."""

    def __init__(self, feed: Feed | None = None, **options: Any) -> None:
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
            feed=feed,
            settings=_settings(**options),
        )
        self.timers = Timers(asyncio.get_running_loop())
        self.pipeline._loop = self.timers  # type: ignore[assignment]

    def _note(self, command: Any, waiter: Any, effects: Effects) -> None:
        self.applied.append(command)
        self._apply(command, waiter, effects)

    def client(self, name: Any) -> "Named":
        """Somebody who waits, and is equal to its name."""
        return Named(self, name)

    def _execute(self, effects: Effects) -> None:
        if effects.controls or effects.deliveries or effects.acks:
            self.effects.append(effects)
        for control in effects.controls:
            if isinstance(control, FollowUp):
                self.pipeline.submit(control.command, control.waiter, durable=True)

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
