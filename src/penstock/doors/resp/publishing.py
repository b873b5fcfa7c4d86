"""PUBLISH: to live subscribers, and into the journal in the background, as with MQTT QoS 0.

Commands that came together are taken together whatever their channels (``publish_columns``): one
look at each channel, one piece of output for all messages with the same subscribers, one reply.

The reply is the true number of receivers: live subscribers of any protocol, a client with several
matching subscriptions once for each as in Redis, and followers of the journal.
"""

from itertools import groupby

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.live import ColumnRuns, Live
from penstock.delivery.fanout import Marked, Targets
from penstock.doors.resp.access import Used, admitted
from penstock.doors.resp.calls import Call, RespClient, Spec
from penstock.doors.resp.faults import no_permission, publish_fault
from penstock.doors.resp.parts import RespParts
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode
from penstock.wire.resp.events import RespColumns
from penstock.wire.resp.names import topic_of


def _publish(call: Call) -> None:
    """Send a message to all subscribers: PUBLISH channel message."""
    door, topic, payloads = call.door, call.args[1], call.tails
    if b"%" in topic or topic not in door.broker.routes.cached:
        topic = topic_of(topic)
    route = door.admission.admit(call.connection.principal, topic)
    if isinstance(route, Refusal):
        call.fail(publish_fault(route, Used.CHANNEL))
        return
    policy = route.policy
    if policy > CAPTURED:
        _publish_guarded(call, topic, policy)
        return
    door.counters.messages_in_total[0] += len(payloads)
    if route.targets:
        door.fanout.forward(route.targets, Live.of(topic, payloads), route.marked)
    if policy:
        door.pipeline.capture(topic, payloads, call.now_ms)
    else:
        door.cluster.broadcast(topic, payloads)
    call.reply(encode.integers(_receivers(door, route), len(payloads)))


def _publish_columns(
    client: RespClient, event: RespColumns, now_ms: int, turn_ends_at: float
) -> int:
    """PUBLISH messages to any channels; return how many were taken: up to one that is special."""
    door, channels = client.door, event.columns[0]
    routes = _plain_routes(client, channels, turn_ends_at)
    count = _count_known(channels, routes)
    if not count:
        return 0
    if count < len(channels):
        event = event.cut(0, count)
    channels, payloads = event.columns
    topics = channels
    if any(route.topic != channel for channel, route in routes.items()):
        topics = [routes[channel].topic for channel in channels]
    door.counters.messages_in_total[0] += count
    _forward(door, routes, topics, event)
    if all(route.policy for route in routes.values()):
        door.pipeline.capture_each(topics, payloads, now_ms)
    else:
        _keep_captured(door, routes, event, now_ms)
    answers = {channel: encode.integer(_receivers(door, routes[channel])) for channel in routes}
    client.replies.add(b"".join(map(answers.__getitem__, channels)))
    return count


def _plain_routes(
    client: RespClient, channels: list[bytes], turn_ends_at: float
) -> dict[bytes, TopicRoute]:
    """The routes of channels that need no more than delivery and capture, up to the first other.

    New channels take time: after the end of the turn they are left for the next.
    """
    cached, rights = client.door.broker.routes.cached, client.principal.rights
    routes: dict[bytes, TopicRoute] = {}
    for channel in dict.fromkeys(channels):
        route = cached.get(channel)
        if (
            route is None
            or not 0 <= route.policy <= CAPTURED
            or (rights.publishable is not None and channel not in rights.publishable)
            or b"%" in channel
        ):
            if routes and client.door.monotonic() > turn_ends_at:
                break
            route = _plain_route(client, topic_of(channel))
            if route is None:
                break
        routes[channel] = route
    return routes


def _plain_route(client: RespClient, topic: bytes) -> TopicRoute | None:
    rights = client.principal.rights
    if rights.publishable is not None and not rights.may_publish(topic):
        return None  # it is refused, and that is noted, where it runs alone
    route = client.door.admission.admit(client.principal, topic)
    return None if isinstance(route, Refusal) or route.policy > CAPTURED else route


def _count_known(channels: list[bytes], routes: dict[bytes, TopicRoute]) -> int:
    """How many messages there are before the first whose channel has no route."""
    if routes.keys() >= set(channels):
        return len(channels)
    return next(number for number, channel in enumerate(channels) if channel not in routes)


def _forward(
    door: RespParts, routes: dict[bytes, TopicRoute], topics: list[bytes], event: RespColumns
) -> None:
    """Forward messages, neighbours with the same subscribers together."""
    channels, payloads = event.columns
    first = routes[channels[0]]
    if all(route.targets == first.targets and not route.marked for route in routes.values()):
        if first.targets:
            live = Live(ColumnRuns(topics, payloads), len(topics), resp=event.rests)
            door.fanout.forward(first.targets, live)
        return
    stop = 0
    for (targets, marked), same in groupby(map(routes.__getitem__, channels), _way):
        start, stop = stop, stop + len(list(same))
        if targets:
            runs = ColumnRuns(topics[start:stop], payloads[start:stop])
            live = Live(runs, stop - start, resp=event.rests[start:stop])
            door.fanout.forward(targets, live, marked)


def _way(route: TopicRoute) -> tuple[Targets, Marked | None]:
    return route.targets, route.marked


def _keep_captured(
    door: RespParts, routes: dict[bytes, TopicRoute], event: RespColumns, now_ms: int
) -> None:
    """Capture messages, or pass them to other nodes, as their channels say."""
    for channel, payload in zip(*event.columns, strict=True):
        route = routes[channel]
        if route.policy:
            door.pipeline.capture(route.topic, [payload], now_ms)
        else:
            door.cluster.broadcast(route.topic, [payload])


def _receivers(door: RespParts, route: TopicRoute) -> int:
    connected = [True for subscriber, _ in route.targets if subscriber.client is not None]
    return len(connected) + door.feed.follower_count(route.topic)


def _publish_guarded(call: Call, topic: bytes, policy: int) -> None:
    """Publish where signatures are required: in envelopes, as MQTT clients do, or not at all."""
    door = call.door
    if not policy & ENVELOPES:
        refusal = door.admission.refuse_unsigned(topic, len(call.tails))
        call.fail(publish_fault(refusal, Used.CHANNEL))
        return
    found = door.envelopes.open(call.connection.principal, topic, call.tails, call.now_ms)
    receivers = _publish_opened(door, found, call.now_ms) if found.payloads else 0
    answer = encode.integers(receivers, found.taken)
    if found.refused is not None:
        reason, text = found.refused
        is_denied = reason is DisconnectReason.NOT_AUTHORIZED
        fault = no_permission(Used.CHANNEL) if is_denied else f"ERR {reason.value}: {text}"
        answer += encode.error(fault)
        # Checking signatures takes time: a client that sent a bad one gets no more of it.
        behind = len(call.tails) - found.taken - 1
        answer += encode.error(f"ERR {reason.value}: behind one that was refused") * behind
    call.reply(answer)


def _publish_opened(door: RespParts, found: OpenedEnvelopes, now_ms: int) -> int:
    topic, payloads = found.topic, found.payloads
    route = door.admission.route(topic)
    door.counters.messages_in_total[0] += len(payloads)
    door.fanout.forward(route.targets, Live.of(topic, payloads), route.marked)
    door.pipeline.publish(topic, payloads, now_ms, qos=0, retain=False, extras=found.extras)
    return _receivers(door, route)


_ACCESS = admitted(lambda args: [topic_of(args[1])], Used.CHANNEL)

COMMANDS = {
    b"SPUBLISH": Spec(
        _publish,
        3,
        _ACCESS,
        is_pipelined=True,
        flags=("pubsub", "loading", "stale", "fast"),
        columns=_publish_columns,
    ),
    b"PUBLISH": Spec(
        _publish,
        3,
        _ACCESS,
        is_pipelined=True,
        flags=("pubsub", "loading", "stale", "fast"),
        columns=_publish_columns,
    ),
}
