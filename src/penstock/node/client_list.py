"""Lists the clients of this node, and the sessions of clients that are away."""

from heapq import nsmallest
from typing import Final

from penstock.core.broker import Broker
from penstock.core.session import Session
from penstock.net.connections import ConnectedClient, Connections
from penstock.obs.client_view import ClientView

_VERSIONS: Final = {4: "3.1.1", 5: "5"}  # by protocol level


def connected_clients(
    connections: Connections, broker: Broker, prefix: bytes, count_max: int
) -> list[ClientView]:
    """The connections whose client ids have a prefix, ordered by client id."""
    named = (client for client in connections.clients if client.name.startswith(prefix))
    return [
        _connected(connections, broker, client)
        for client in nsmallest(count_max, named, key=_order)
    ]


def away_clients(broker: Broker, prefix: bytes, count_max: int) -> list[ClientView]:
    """The sessions of disconnected clients, ordered by client id."""
    named = (client_id for client_id in broker.away if client_id.startswith(prefix))
    chosen = nsmallest(count_max, named)
    return [_described(broker.away[client_id], "", None) for client_id in chosen]


def _order(client: ConnectedClient) -> tuple[bytes, str]:
    return client.name, client.peer


def _connected(connections: Connections, broker: Broker, client: ConnectedClient) -> ClientView:
    idle_s = max(0.0, connections.monotonic() - client.last_packet_at)
    session = broker.sessions.get(client.name)
    if client.protocol_name == "mqtt" and session is not None:
        view = _described(session, client.peer, idle_s)
    else:
        view = ClientView(client.name, client.protocol_name, client.peer, idle_s)
    origin = client.origin
    return view._replace(
        user=client.principal.user,
        is_encrypted=origin.is_encrypted,
        is_websocket=origin.is_websocket,
    )


def _described(session: Session, peer: str, idle_s: float | None) -> ClientView:
    return ClientView(
        session.client_id,
        "mqtt",
        peer,
        idle_s,
        is_persistent=session.durable,
        subscriptions=len(session.subscriptions or ()),
        in_flight=len(session.inflight or ()),
        waiting=len(session.queue or ()),
        user=session.user,
        version=_VERSIONS[session.version],
    )
