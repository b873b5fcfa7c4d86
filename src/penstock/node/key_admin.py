"""Administration of the key ring; changes go through the journal."""

import asyncio

from penstock.access.audit import AuditLog
from penstock.clock import Clock
from penstock.cluster.consensus import Consensus
from penstock.commit.completion import FutureCompletion
from penstock.commit.pipeline import Pipeline
from penstock.core.commands import KeysStored
from penstock.node.cluster_admin import check_leads
from penstock.reading.confirming import confirmed
from penstock.trust.keys import KEY_ID_MAX, Key, KeyRing


class NodeKeyAdmin:
    """Implements ``admin.view.KeyAdmin``."""

    def __init__(
        self,
        keys: KeyRing,
        pipeline: Pipeline,
        cluster: Consensus,
        clock: Clock,
        audit: AuditLog,
    ) -> None:
        self._audit = audit
        self.one_at_a_time = asyncio.Lock()
        self._keys = keys
        self._pipeline = pipeline
        self._cluster = cluster
        self.wall_ms = clock.wall_ms
        self._allocated = 0  # the last id given out; its key may not be journaled yet

    async def confirmed(self) -> None:
        await confirmed(self._cluster)

    def keys(self) -> list[Key]:
        return self._keys.all()

    def next_key_id(self) -> int:
        """An unused id; calls before the key is stored get different ones."""
        free = self._keys.next_id()
        self._allocated = max(free, self._allocated + 1)
        if self._allocated > KEY_ID_MAX:
            self._allocated = free
        return self._allocated

    async def store_keys(self, *keys: Key) -> None:
        """Journal keys, all or none; they are in force when this returns.

        Raises StorageError, ClusterError.
        """
        check_leads(self._cluster)
        waiter = FutureCompletion("the key is not stored")
        command = KeysStored([key.encode() for key in keys])
        with self._pipeline.as_leader():
            take_back = self._audit.keys_changed(keys, self.wall_ms())
            self._pipeline.submit(command, waiter, durable=True)
        await self._audit.stored(waiter.future, take_back)
