"""PUBLISH: to live subscribers, and into the journal in the background, as with MQTT QoS 0.

Commands that came together are taken together whatever their channels (``publish_columns``): one
look at each channel, one piece of output for all messages with the same subscribers, one reply.

The reply is the true number of receivers: live subscribers of any protocol, a client with several
matching subscriptions once for each as in Redis, and followers of the journal.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.live import LazyRuns, Live, Run, column_runs
from penstock.delivery.fanout import Marked, Targets
from penstock.doors.resp.access import Used, admitted
from penstock.doors.resp.calls import Call, RespClient, Spec
from penstock.doors.resp.faults import no_permission, publish_fault
from penstock.doors.resp.parts import RespParts
from penstock.doors.resp.subscriptions import Outlets, connection_of, way_of
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode
from penstock.wire.resp.events import RespColumns
from penstock.wire.resp.names import topic_of


def _publish(call: Call) -> None:
    """Send a message to all subscribers: PUBLISH channel message."""
    door, topic, payloads = call.door, call.args[1], call.tails
    if b"%" in topic or topic not in door.broker.routes.cached:
        topic = topic_of(topic)
    route = door.admission.admit(call.connection.principal, topic, len(payloads))
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
    channels = event.distinct
    route = _common_route(client, channels)
    if route is not None:
        _publish_alike(client, event, route, now_ms)
        return event.count
    ways = _pushed_ways(client, channels)
    if ways is not None:
        _push_each(client, event, ways, now_ms)
        return event.count
    door = client.door
    routes = _plain_routes(client, channels, turn_ends_at)
    if len(routes) < len(channels):
        if not routes:
            return 0
        event = event.cut(0, event.count_before(routes))
    door.counters.messages_in_total[0] += event.count
    _forward(door, routes, event)
    if all(route.policy for route in routes.values()):
        topics = {channel: route.topic for channel, route in routes.items()}
        door.pipeline.capture_each(event, topics, now_ms)
    else:
        _keep_captured(door, routes, event, now_ms)
    client.replies.add(event.answers(_answers(door, routes)))
    return event.count


def _common_route(client: RespClient, channels: list[bytes]) -> TopicRoute | None:
    """The route of the first channel, if all are known, captured, and have the same subscribers.

    That is so nearly always: then nothing else has to be found out for each channel.
    """
    if client.door.feed.routes.subscription_count:
        return None  # each topic has its own followers
    cached, publishable = client.door.broker.routes.cached, client.principal.rights.publishable
    first = cached.get(channels[0])
    if first is None or first.marked is not None:
        return None
    targets = first.targets
    for channel in channels:
        route = cached.get(channel)
        if (
            route is None
            or route.targets is not targets
            or route.policy != CAPTURED
            or route.marked is not None
            or b"%" in channel
            or (publishable is not None and channel not in publishable)
        ):
            return None
    return first


def _publish_alike(client: RespClient, event: RespColumns, route: TopicRoute, now_ms: int) -> None:
    """PUBLISH messages that all go the way of ``route``."""
    door, count, targets = client.door, event.count, route.targets
    door.counters.messages_in_total[0] += count
    receivers = 0
    if targets:
        way = way_of(targets)
        if way is None:
            door.fanout.forward(targets, _live(event))
            receivers = len([True for subscriber, _ in targets if subscriber.client is not None])
        else:
            event.send_all(way)
            receivers = len(way)
    door.pipeline.capture_each(event, None, now_ms)
    client.replies.add(encode.integers(receivers, count))


def _pushed_ways(client: RespClient, channels: list[bytes]) -> list[Outlets] | None:
    """Where the messages of each channel go, if all are known, captured, and nothing but pushed."""
    if client.door.feed.routes.subscription_count:
        return None  # each topic has its own followers
    cached, publishable = client.door.broker.routes.cached, client.principal.rights.publishable
    found: list[Outlets] = []
    for channel in channels:
        route = cached.get(channel)
        if (
            route is None
            or route.policy != CAPTURED
            or route.marked is not None
            or b"%" in channel
            or (publishable is not None and channel not in publishable)
        ):
            return None
        way = way_of(route.targets)
        if way is None:
            return None
        found.append(way)
    return found


def _push_each(client: RespClient, event: RespColumns, ways: list[Outlets], now_ms: int) -> None:
    """PUBLISH messages, those of each channel to its subscribers."""
    door, count = client.door, event.count
    door.counters.messages_in_total[0] += count
    event.send_each(ways)
    door.pipeline.capture_each(event, None, now_ms)
    receivers = {len(way) for way in ways}
    if len(receivers) == 1:
        client.replies.add(encode.integers(receivers.pop(), count))
    else:
        answers = [encode.integer(len(way)) for way in ways]
        client.replies.add(event.answers(dict(zip(event.distinct, answers, strict=True))))


def _plain_routes(
    client: RespClient, channels: list[bytes], turn_ends_at: float
) -> dict[bytes, TopicRoute]:
    """The routes of channels that need no more than delivery and capture, up to the first other.

    New channels take time: after the end of the turn they are left for the next.
    """
    cached, publishable = client.door.broker.routes.cached, client.principal.rights.publishable
    routes: dict[bytes, TopicRoute] = {}
    for channel in channels:
        route = cached.get(channel)
        if (
            route is None
            or not 0 <= route.policy <= CAPTURED
            or (publishable is not None and channel not in publishable)
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


def _runs(event: RespColumns, routes: Mapping[bytes, TopicRoute] | None) -> Sequence[Run]:
    channels, payloads = event.columns
    topics = channels if routes is None else [routes[channel].topic for channel in channels]
    return column_runs(topics, payloads)


def _live(event: RespColumns, routes: Mapping[bytes, TopicRoute] | None = None) -> Live:
    """The messages of an event, whose payloads are made if somebody wants them.

    Without ``routes``, the channels are topics.
    """
    return Live(LazyRuns(partial(_runs, event, routes)), event.count, resp=event)


def _forward(door: RespParts, routes: dict[bytes, TopicRoute], event: RespColumns) -> None:
    """Forward messages, those with the same subscribers together, and each subscriber's in order.

    If nobody is among two sets of subscribers, these are served one after the other. Otherwise only
    neighbours are together.
    """
    ways = _ways(routes)
    if ways is not None:
        for targets, channels in ways:
            if targets:
                some = event if len(ways) == 1 else event.of(channels)
                door.fanout.forward(targets, _live(some, routes))
        return
    stop = 0
    for (targets, marked), same in groupby(map(routes.__getitem__, event.columns[0]), _way):
        start, stop = stop, stop + len(list(same))
        if targets:
            some = event.cut(start, stop)
            door.fanout.forward(targets, _live(some, routes), marked)


def _ways(routes: dict[bytes, TopicRoute]) -> list[tuple[Targets, set[bytes]]] | None:
    """Sets of subscribers, each with its channels; None if one is in two, or has wishes."""
    found: dict[Targets, set[bytes]] = {}
    targets: Targets | None = None
    for channel, route in routes.items():
        if route.marked is not None:
            return None
        if route.targets is not targets:
            targets = route.targets
            channels = found.setdefault(targets, set())
        channels.add(channel)
    return list(found.items()) if len(found) == 1 or _are_disjoint(found) else None


def _are_disjoint(ways: Iterable[Targets]) -> bool:
    """Whether nobody is in two of them. Several listeners of one client count as one."""
    sets = [{connection_of(target.client) for target, _ in targets} - {None} for targets in ways]
    return len(set().union(*sets)) == sum(map(len, sets))


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


def _answers(door: RespParts, routes: dict[bytes, TopicRoute]) -> dict[bytes, bytes]:
    """The replies to PUBLISH by channel. Most channels of a client have the same subscribers."""
    answers: dict[bytes, bytes] = {}
    targets: Targets | None = None
    is_followed = door.feed.routes.subscription_count > 0
    for channel, route in routes.items():
        if route.targets is not targets or is_followed:
            targets = route.targets
            answer = encode.integer(_receivers(door, route))
        answers[channel] = answer
    return answers


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
