"""Who is connected to this node, and which sessions are kept for clients that are not."""

from heapq import nsmallest
from typing import Any

from penstock.core.session import Session
from penstock.doors.binary import BinaryConnection
from penstock.doors.mqtt.connection import MqttConnection
from penstock.doors.queue.connection import QueueConnection
from penstock.doors.resp.connection import RespConnection
from penstock.net.connections import Client
from penstock.node.hub import Hub
from penstock.obs.client_view import ClientView

_PROTOCOLS: dict[type[Any], str] = {
    MqttConnection: "mqtt",
    BinaryConnection: "binary",
    QueueConnection: "queue",
    RespConnection: "redis",
}


def connected_clients(hub: Hub, prefix: bytes, count_max: int) -> list[ClientView]:
    """Describe the connections whose client ids begin so, in the order of these."""
    named = (client for client in hub.connections.clients if client.name.startswith(prefix))
    return [_connected(hub, client) for client in nsmallest(count_max, named, key=_order)]


def away_clients(hub: Hub, prefix: bytes, count_max: int) -> list[ClientView]:
    """Describe the sessions that wait for their clients, in the order of the client ids."""
    named = (client_id for client_id in hub.broker.away if client_id.startswith(prefix))
    chosen = nsmallest(count_max, named)
    return [_described(hub.broker.away[client_id], "", None) for client_id in chosen]


def _order(client: Client) -> tuple[bytes, str]:
    return client.name, client.peer


def _connected(hub: Hub, client: Client) -> ClientView:
    idle_s = max(0.0, hub.monotonic() - client.last_packet_at)
    session = hub.broker.sessions.get(client.name)
    if isinstance(client, MqttConnection) and session is not None:
        return _described(session, client.peer, idle_s)
    return ClientView(client.name, _PROTOCOLS[type(client)], client.peer, idle_s)


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
    )
