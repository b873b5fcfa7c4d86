"""PUBLISH: to live subscribers, and into the journal in the background, as with MQTT QoS 0.

The reply is the true number of receivers: live subscribers of any protocol, a client with several
matching subscriptions once for each as in Redis, and followers of the journal.
"""

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal, TopicRoute
from penstock.access.envelopes import OpenedEnvelopes
from penstock.core.live import Live
from penstock.doors.resp.access import Used, admitted
from penstock.doors.resp.calls import Call, Spec
from penstock.doors.resp.faults import no_permission, publish_fault
from penstock.doors.resp.parts import RespParts
from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import encode
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
        _publish, 3, _ACCESS, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")
    ),
    b"PUBLISH": Spec(
        _publish, 3, _ACCESS, is_pipelined=True, flags=("pubsub", "loading", "stale", "fast")
    ),
}
