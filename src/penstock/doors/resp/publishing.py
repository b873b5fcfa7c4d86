"""PUBLISH: to whoever listens now, and into the journal behind their backs.

Like MQTT's QoS 0: nobody waits for the disk. The answer is the true number of receivers: live
subscribers of any protocol, a client with several matching subscriptions once for each as in Redis,
and those who follow the journal.
"""

from penstock.access.admission import CAPTURED, ENVELOPES, topic_refusal
from penstock.access.envelopes import Opened, open_envelopes, refuse_unsigned
from penstock.core.routes import UNKNOWN_POLICY, Route
from penstock.core.session import Session
from penstock.delivery.live import Live
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.faults import publish_fault
from penstock.node.hub import Hub
from penstock.wire.resp import encode
from penstock.wire.resp.names import topic_of


def _publish(call: Call) -> None:
    """Send a message to all who listen: PUBLISH channel message."""
    hub, topic, payloads = call.connection.hub, call.args[1], call.tails
    cached = hub.broker.routes.cached
    route = cached.get(topic)
    if route is None or route.policy == UNKNOWN_POLICY or b"%" in topic:
        topic = topic_of(topic)
        route = cached.get(topic)
        # Cached alone says nothing: the broker's own topics are, and are closed to clients.
        refusal = (
            topic_refusal(topic, hub.limits)
            if route is None or route.policy == UNKNOWN_POLICY
            else None
        )
        if refusal is not None:
            call.fail(publish_fault(refusal))
            return
        route = hub.route(topic)
    if route.policy > CAPTURED:
        _publish_guarded(call, topic, route.policy)
        return
    hub.counters.messages_in_total[0] += len(payloads)
    if route.targets:
        hub.forward(route.targets, Live.of(topic, payloads))
    if route.policy:
        hub.pipeline.capture(topic, payloads, call.now_ms)
    else:
        hub.broadcast(topic, payloads)
    call.reply(encode.integers(_receivers(hub, route), len(payloads)))


def _receivers(hub: Hub, route: Route[Session]) -> int:
    connected = [True for subscriber, _ in route.targets if subscriber.outlet is not None]
    return len(connected) + hub.feed.followers(route.topic)


def _publish_guarded(call: Call, topic: bytes, policy: int) -> None:
    """Publish where signatures are demanded: in envelopes, as MQTT clients do, or not at all."""
    hub = call.connection.hub
    if not policy & ENVELOPES:
        call.fail(publish_fault(refuse_unsigned(hub, topic, len(call.tails))))
        return
    found = open_envelopes(hub, topic, call.tails, call.now_ms)
    receivers = _publish_opened(hub, found, call.now_ms) if found.payloads else 0
    answer = encode.integers(receivers, found.taken)
    if found.refused is not None:
        reason, text = found.refused
        answer += encode.error(f"ERR {reason.value}: {text}")
        # To check signatures takes time, and whoever sent a bad one has had theirs.
        behind = len(call.tails) - found.taken - 1
        answer += encode.error(f"ERR {reason.value}: behind one that was refused") * behind
    call.reply(answer)


def _publish_opened(hub: Hub, found: Opened, now_ms: int) -> int:
    """Publish what came out of envelopes; the number of receivers."""
    topic, payloads = found.topic, found.payloads
    route = hub.route(topic)
    hub.counters.messages_in_total[0] += len(payloads)
    hub.forward(route.targets, Live.of(topic, payloads))
    hub.pipeline.publish(topic, payloads, now_ms, qos=0, retain=False, extras=found.extras)
    return _receivers(hub, route)


COMMANDS = {
    b"SPUBLISH": Spec(_publish, 3, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")),
    b"PUBLISH": Spec(_publish, 3, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")),
}
