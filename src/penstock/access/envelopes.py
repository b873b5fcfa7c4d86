"""Signed messages of MQTT clients: envelopes opened at the door, and sealed for who wants them.

A publish to ``$signed/TOPIC`` is judged by the gate and goes on as a publish to TOPIC, its
signature beside it. The other way round, a signed message of any protocol is also offered, live, to
MQTT clients that subscribe to ``$signed/`` and a filter, in an envelope again.

MQTT clients repeat, byte by byte, what was not acknowledged before the connection broke. An
envelope of version 2 that is stored already is therefore left out, and acknowledged: nobody gains
by sending it again. One whose first copy is not stored, because it is still on its way or the disk
refused it, is a replay like any other: to acknowledge it could be to lose it.

Of envelopes that came together, those before a bad one are taken. Their nonces are used up, and
their publishers could not send them again.
"""

from typing import NamedTuple

from penstock.access.admission import CAPTURED, ENVELOPE_PREFIX, topic_refusal
from penstock.core.routes import UNKNOWN_POLICY
from penstock.delivery.live import Live
from penstock.model.message import Extras
from penstock.node.hub import Hub
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.batch import Batch
from penstock.trust.faults import SignatureFault
from penstock.wire.mqtt.envelope import opened, sealed

Refused = tuple[DisconnectReason, str]
"""Why the connection must end, and what to say of it in the log."""


class Opened(NamedTuple):
    """What came out of envelopes, up to the first one that was refused."""

    topic: bytes
    payloads: list[bytes]
    extras: list[Extras | None]
    taken: int
    """How many envelopes are done with; some may have been stored before and left out here."""
    refused: Refused | None = None
    """What is wrong with the next one, if there is one."""


def open_envelopes(hub: Hub, topic: bytes, envelopes: list[bytes], now_ms: int) -> Opened:
    """Open envelopes that came to ``$signed/…``, until one is refused."""
    topic = topic.removeprefix(ENVELOPE_PREFIX)
    done = Opened(topic, [], [], 0)
    refusal = _topic_refusal(hub, topic)
    if refusal is not None:
        return done._replace(refused=refusal)
    for taken, envelope in enumerate(envelopes):
        found = opened(envelope)
        if found is None:
            malformed = DisconnectReason.MALFORMED_PACKET, "a payload that is no signature envelope"
            return done._replace(taken=taken, refused=malformed)
        signature, payload = found
        refused = hub.gate.admit_signed(topic, payload, signature, now_ms)
        if refused is None:
            done.payloads.append(payload)
            done.extras.append(Extras(signature=signature))
        elif refused.reason is not SignatureFault.REPLAYED or not hub.gate.is_stored(signature):
            hub.counters.drops[DropReason.SIGNATURE_REFUSED] += len(envelopes) - taken
            reason = DisconnectReason.SIGNATURE_REFUSED, refused.text
            return done._replace(taken=taken, refused=reason)
    return done._replace(taken=len(envelopes))


def _topic_refusal(hub: Hub, topic: bytes) -> Refused | None:
    """Say why nobody may publish to the topic of an envelope; envelopes do not nest."""
    if topic.startswith(ENVELOPE_PREFIX):
        return DisconnectReason.TOPIC_INVALID, "an envelope for the topic of envelopes"
    return topic_refusal(topic, hub.limits)


def refuse_unsigned(hub: Hub, topic: bytes, count: int, *, could_sign: bool = True) -> Refused:
    """Count unsigned publishes to a topic that demands signatures; say why they are refused.

    Who could not have signed them is not referred to a command for signed publishes.
    """
    forbidden = topic_refusal(topic, hub.limits)
    if forbidden is not None:
        return forbidden
    refusal = hub.gate.admit_unsigned(topic, count)
    hub.counters.drops[DropReason.SIGNATURE_REFUSED] += count
    if refusal is None:
        text = "Only envelopes with signed messages go to $signed/"
    elif could_sign:
        text = refusal.text
    else:
        text = f"Topic '{topic.decode()}' takes signed messages only, and none can be signed here"
    return DisconnectReason.SIGNATURE_REFUSED, text


def unsigned_refusal(hub: Hub, topic: bytes, count: int) -> Refused | None:
    """Say why messages may not be published to a topic in a way that has no signatures.

    They are counted if so. A topic that is no topic is not worth a place among the cached routes.
    """
    route = hub.broker.routes.cached.get(topic)
    if route is None or route.policy == UNKNOWN_POLICY:
        refusal = topic_refusal(topic, hub.limits)
        if refusal is not None:
            return refusal
        route = hub.route(topic)
    if route.policy <= CAPTURED:
        return None
    return refuse_unsigned(hub, topic, count, could_sign=False)


def forget_signatures(hub: Hub, batch: Batch) -> None:
    """The disk refused these messages: whoever signed them may send them again."""
    for extras in batch.extras.values():
        for found in extras.values():
            if found.signature is not None:
                hub.gate.note_failed(found.signature)


def offer_envelopes(hub: Hub, batch: Batch) -> None:
    """Note that the signed messages of a commit are stored; offer them in envelopes, live."""
    for topic, extras in batch.extras.items():
        if topic.startswith(b"$"):
            continue  # a dead letter: what was signed is its message, for another topic
        signed = {
            number: found.signature
            for number, found in extras.items()
            if found.signature is not None
        }
        for signature in signed.values():
            hub.gate.note_stored(signature)
        routes, name = hub.broker.routes, ENVELOPE_PREFIX + topic
        targets = (routes.cached.get(name) or routes.resolve(name)).targets
        if targets and signed:
            payloads = batch.groups[topic].payloads
            envelopes = [sealed(found, payloads[number]) for number, found in signed.items()]
            hub.forward(targets, Live.of(name, envelopes))
