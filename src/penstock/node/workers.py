"""Who works on groups: workers as connections with an address and a name."""

from collections.abc import Iterable

from penstock.admin.view import Holder
from penstock.dispatch.dispatchers import Dispatchers
from penstock.net.connection_ids import NO_NODE, connection_of_worker, node_of
from penstock.net.connections import ConnectedClient, Connections


class WorkerLookout:
    """Finds the connections of workers; each question costs a walk over all connections."""

    def __init__(self, dispatchers: Dispatchers, connections: Connections) -> None:
        self._dispatchers = dispatchers
        self._connections = connections

    def workers(self, topic: bytes, group: bytes) -> list[Holder]:
        """The workers of a group that are connected to this node."""
        dispatcher = self._dispatchers.dispatcher(topic, group)
        return self.described(dispatcher.workers if dispatcher else ())

    def holders(self, leases: Iterable[int]) -> dict[int, Holder]:
        """By lease, those that are known here."""
        of = self._dispatchers.leases.holder
        names = {lease: name for lease in leases if (name := of(lease))}
        known = dict(zip(set(names.values()), self.described(set(names.values())), strict=True))
        return {lease: known[name] for lease, name in names.items()}

    def described(self, names: Iterable[bytes]) -> list[Holder]:
        """In the same order."""
        wanted = list(names)
        numbers = {connection_of_worker(name) for name in wanted}
        clients = {c.number: c for c in self._connections.clients if c.number in numbers}
        return [_holder(name, clients.get(connection_of_worker(name))) for name in wanted]


def _holder(name: bytes, client: ConnectedClient | None) -> Holder:
    worker = name.decode("utf-8", "backslashreplace")
    node = node_of(connection_of_worker(name))
    node = node if node != NO_NODE else 0
    if client is None:
        return Holder(worker, node=node)
    client_id = client.name.decode("utf-8", "backslashreplace")
    return Holder(worker, client_id, client.peer, client.principal.user, node)
