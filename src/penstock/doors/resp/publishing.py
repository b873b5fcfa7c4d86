"""PUBLISH: to whoever listens now, and into the journal behind their backs.

Like MQTT's QoS 0: nobody waits for the disk. The answer is the true number of receivers: live
subscribers of any protocol, a client with several matching subscriptions once for each as in Redis,
and those who follow the journal.
"""

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.live import Live
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.faults import publish_fault
from penstock.node.hub import Hub
from penstock.wire.resp import encode
from penstock.wire.resp.names import topic_of


def _publish(call: Call) -> None:
    """Send a message to all who listen: PUBLISH channel message."""
    hub, topic, payloads = call.connection.hub, call.args[1], call.tails
    if b"%" in topic or topic not in hub.broker.routes.cached:
        topic = topic_of(topic)
    route = hub.admission.admit(call.connection.principal, topic)
    if isinstance(route, Refusal):
        call.fail(publish_fault(route))
        return
    policy = route.policy
    if policy > CAPTURED:
        _publish_guarded(call, topic, policy)
        return
    hub.counters.messages_in_total[0] += len(payloads)
    if route.targets:
        hub.fanout.forward(route.targets, Live.of(topic, payloads))
    if policy:
        hub.pipeline.capture(topic, payloads, call.now_ms)
    else:
        hub.cluster.broadcast(topic, payloads)
    call.reply(encode.integers(_receivers(hub, route), len(payloads)))


def _receivers(hub: Hub, route: TopicRoute) -> int:
    connected = [True for subscriber, _ in route.targets if subscriber.client is not None]
    return len(connected) + hub.feed.followers(route.topic)


def _publish_guarded(call: Call, topic: bytes, policy: int) -> None:
    """Publish where signatures are demanded: in envelopes, as MQTT clients do, or not at all."""
    hub = call.connection.hub
    if not policy & ENVELOPES:
        call.fail(publish_fault(hub.admission.refuse_unsigned(topic, len(call.tails))))
        return
    found = hub.envelopes.open(call.connection.principal, topic, call.tails, call.now_ms)
    receivers = _publish_opened(hub, found, call.now_ms) if found.payloads else 0
    answer = encode.integers(receivers, found.taken)
    if found.refused is not None:
        reason, text = found.refused
        answer += encode.error(f"ERR {reason.value}: {text}")
        # To check signatures takes time, and whoever sent a bad one has had theirs.
        behind = len(call.tails) - found.taken - 1
        answer += encode.error(f"ERR {reason.value}: behind one that was refused") * behind
    call.reply(answer)


def _publish_opened(hub: Hub, found: OpenedEnvelopes, now_ms: int) -> int:
    """Publish what came out of envelopes; the number of receivers."""
    topic, payloads = found.topic, found.payloads
    route = hub.admission.route(topic)
    hub.counters.messages_in_total[0] += len(payloads)
    hub.fanout.forward(route.targets, Live.of(topic, payloads))
    hub.pipeline.publish(topic, payloads, now_ms, qos=0, retain=False, extras=found.extras)
    return _receivers(hub, route)


COMMANDS = {
    b"SPUBLISH": Spec(_publish, 3, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")),
    b"PUBLISH": Spec(_publish, 3, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")),
}
