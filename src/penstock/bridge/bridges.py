"""All bridges of a node; they run where the cluster is led from, so that each runs once."""

import asyncio
from collections.abc import Callable, Sequence

from penstock.bridge.bridge import Bridge, LocalDoor
from penstock.clock import Clock
from penstock.cluster.consensus import Leadership
from penstock.config.bridge_options import BridgeOptions
from penstock.obs.bridge_view import BridgeView


class NodeBridges:
    """Starts and stops the bridges with the leadership of this node."""

    def __init__(
        self,
        options: Sequence[BridgeOptions],
        broker_id: Callable[[], str],
        door: LocalDoor,
        clock: Clock,
    ) -> None:
        """``broker_id`` is the same on all nodes of a cluster, and no other broker's."""
        self._bridges = [Bridge(one, broker_id, door, clock) for one in options]
        self._tasks: list[asyncio.Task[None]] = []

    def views(self) -> list[BridgeView]:
        return [bridge.view() for bridge in self._bridges]

    def led(self, leadership: Leadership) -> None:
        if leadership.is_leader and not self._tasks:
            self._tasks = [asyncio.create_task(bridge.run()) for bridge in self._bridges]
        elif not leadership.is_leader:
            self.stop()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks = []
