"""The key ring as administrators change it: through the journal, like everything durable."""

from penstock.commit.completion import FutureCompletion
from penstock.core.commands import KeyStored
from penstock.node.cluster_admin import check_leads
from penstock.node.hub import Hub
from penstock.reading.confirming import confirmed
from penstock.trust.keys import KEY_ID_MAX, Key


class NodeKeyAdmin:
    """Implements ``admin.view.KeyAdmin``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._promised = 0
        """The last id given out: its key may still be on its way to the disk."""

    async def confirmed(self) -> None:
        """Wait until what is read here is current. Raises NoQuorum."""
        await confirmed(self._hub.cluster)

    def keys(self) -> list[Key]:
        """All registered keys, by id."""
        return self._hub.broker.keys.all()

    def next_key_id(self) -> int:
        """An id that no key has, nor one that is being registered."""
        free = self._hub.broker.keys.next_id()
        self._promised = max(free, self._promised + 1)
        if self._promised > KEY_ID_MAX:
            self._promised = free
        return self._promised

    def wall_ms(self) -> int:
        """The clock by which keys expire."""
        return self._hub.wall_ms()

    async def store_key(self, key: Key) -> None:
        """Journal a key; it is in force when this returns. Raises StorageError, ClusterError."""
        check_leads(self._hub.cluster)
        waiter = FutureCompletion("the key is not stored")
        command = KeyStored(key.id, key.encode())
        with self._hub.pipeline.as_leader():
            self._hub.pipeline.submit(command, waiter, durable=True)
        await waiter.future
