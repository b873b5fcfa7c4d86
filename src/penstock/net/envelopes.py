"""Signed messages of MQTT clients: envelopes opened at the door, and sealed for who wants them.

A publish to ``$signed/TOPIC`` is judged by the gate and goes on as a publish to TOPIC, its
signature beside it. The other way round, a signed message of any protocol is also offered, live, to
MQTT clients that subscribe to ``$signed/`` and a filter, in an envelope again.

MQTT clients repeat, byte by byte, what was not acknowledged before the connection broke. An
envelope of version 2 that was accepted before is therefore left out, and acknowledged: it is there
already. Nobody gains by sending it again.
"""

from penstock.model.message import Extras
from penstock.net.admission import ENVELOPE_PREFIX, topic_refusal
from penstock.net.hub import Hub
from penstock.net.live import Live
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.batch import Batch
from penstock.trust.faults import SignatureFault
from penstock.wire.mqtt.envelope import opened, sealed

__all__ = ["Opened", "Refused", "offer_envelopes", "open_envelopes", "refuse_unsigned"]

Opened = tuple[bytes, list[bytes], list[Extras | None]]
"""Topic, payloads and signatures of messages whose envelopes were opened."""

Refused = tuple[DisconnectReason, str]
"""Why the connection must end, and what to say of it in the log."""


def open_envelopes(hub: Hub, topic: bytes, envelopes: list[bytes], now_ms: int) -> Opened | Refused:
    """Open envelopes that came to ``$signed/…``; those accepted before are left out."""
    topic = topic.removeprefix(ENVELOPE_PREFIX)
    refusal = topic_refusal(topic, hub.limits)
    if refusal is not None:
        return refusal
    payloads: list[bytes] = []
    extras: list[Extras | None] = []
    for envelope in envelopes:
        found = opened(envelope)
        if found is None:
            return DisconnectReason.MALFORMED_PACKET, "a payload that is no signature envelope"
        signature, payload = found
        refused = hub.gate.admit_signed(topic, payload, signature, now_ms)
        if refused is not None and refused.reason is SignatureFault.REPLAYED:
            continue
        if refused is not None:
            hub.counters.drops[DropReason.SIGNATURE_REFUSED] += len(envelopes)
            return DisconnectReason.SIGNATURE_REFUSED, refused.text
        payloads.append(payload)
        extras.append(Extras(signature=signature))
    return topic, payloads, extras


def refuse_unsigned(hub: Hub, topic: bytes, count: int) -> Refused:
    """Count unsigned publishes to a topic that demands signatures; say why they are refused."""
    refusal = hub.gate.admit_unsigned(topic)
    hub.counters.drops[DropReason.SIGNATURE_REFUSED] += count
    text = refusal.text if refusal else "Only envelopes with signed messages go to $signed/"
    return DisconnectReason.SIGNATURE_REFUSED, text


def offer_envelopes(hub: Hub, batch: Batch) -> None:
    """Offer the signed messages of a commit to live subscribers of their envelopes."""
    for topic, extras in batch.extras.items():
        route = hub.broker.routes
        name = ENVELOPE_PREFIX + topic
        targets = (route.cached.get(name) or route.resolve(name)).targets
        if not targets:
            continue
        payloads = batch.groups[topic].payloads
        envelopes = [
            sealed(found.signature, payloads[number])
            for number, found in extras.items()
            if found.signature is not None
        ]
        if envelopes:
            hub.forward(targets, Live.of(name, envelopes))
