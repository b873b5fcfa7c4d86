"""Signed messages of MQTT clients: opens envelopes, and seals them for subscribers.

A publish to ``$signed/TOPIC`` is verified by the gate and continues as a publish to TOPIC with its
signature. A signed message of any protocol is also forwarded live, in an envelope, to MQTT clients
that subscribe to ``$signed/`` and a filter.

MQTT clients repeat, byte by byte, what was not acknowledged before the connection broke. So an
envelope of version 2 that is stored already is acknowledged and not published again. If its first
copy is not stored, because it is still pending or its commit failed, it is refused as a replay:
acknowledging it could lose it.

Of envelopes in one chunk, those before a bad one are taken: their nonces are used up, and their
publishers could not send them again.
"""

from typing import NamedTuple

from penstock.access.admission import Admission, Refusal
from penstock.core.live import Live, LiveSubscriber
from penstock.core.routes import Routes
from penstock.core.session import Session
from penstock.delivery.fanout import LiveFanout
from penstock.model.message import Extras
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.store.batch import Batch
from penstock.trust.faults import SignatureFault
from penstock.trust.principal import Principal
from penstock.trust.touched import ENVELOPE_PREFIX
from penstock.wire.mqtt.envelope import opened, sealed


class OpenedEnvelopes(NamedTuple):
    """The content of envelopes, up to the first one that was refused."""

    topic: bytes
    payloads: list[bytes]
    extras: list[Extras | None]
    taken: int  # envelopes handled, including repetitions, which are not in ``payloads``
    refused: Refusal | None = None  # of the next envelope, if there is one


class Envelopes:
    """Opens the envelopes that clients publish and seals those that clients subscribe to."""

    def __init__(
        self,
        admission: Admission,
        routes: Routes[Session | LiveSubscriber],
        fanout: LiveFanout,
        counters: Counters,
    ) -> None:
        self._admission = admission
        self._gate = admission.gate
        self._routes = routes
        self._fanout = fanout
        self._counters = counters

    def open(
        self, principal: Principal, topic: bytes, envelopes: list[bytes], now_ms: int
    ) -> OpenedEnvelopes:
        """Open envelopes that came to ``$signed/…``, until one is refused."""
        topic = topic.removeprefix(ENVELOPE_PREFIX)
        done = OpenedEnvelopes(topic, [], [], 0)
        refusal = self._topic_refusal(principal, topic, len(envelopes))
        if refusal is not None:
            return done._replace(refused=refusal)
        for taken, envelope in enumerate(envelopes):
            found = opened(envelope)
            if found is None:
                text = "a payload that is no signature envelope"
                malformed = Refusal(DisconnectReason.MALFORMED_PACKET, text)
                return done._replace(taken=taken, refused=malformed)
            signature, payload = found
            refused = self._gate.admit_signed(topic, payload, signature, now_ms)
            if refused is None:
                done.payloads.append(payload)
                done.extras.append(Extras(signature=signature))
            elif refused.reason is not SignatureFault.REPLAYED or not self._gate.is_stored(
                signature
            ):
                self._counters.dropped(
                    DropReason.SIGNATURE_REFUSED,
                    len(envelopes) - taken,
                    topic=topic,
                    user=principal.user,
                    detail=refused.detail,
                )
                reason = Refusal(DisconnectReason.SIGNATURE_REFUSED, refused.text)
                return done._replace(taken=taken, refused=reason)
        return done._replace(taken=len(envelopes))

    def _topic_refusal(self, principal: Principal, topic: bytes, count: int) -> Refusal | None:
        if topic.startswith(ENVELOPE_PREFIX):
            text = "an envelope for the topic of envelopes"
            return Refusal(DisconnectReason.TOPIC_INVALID, text)
        route = self._admission.admit_signed(principal, topic, count)
        return route if isinstance(route, Refusal) else None

    def commit_failed(self, batch: Batch) -> None:
        """The commit failed: its signatures may be used again."""
        for extras in batch.extras.values():
            for found in extras.values():
                if found.signature is not None:
                    self._gate.note_failed(found.signature)

    def committed(self, batch: Batch) -> None:
        """Note that signed messages are stored, and forward them in envelopes."""
        for topic, extras in batch.extras.items():
            if topic.startswith(b"$"):
                continue  # a dead letter, whose signature is for another topic
            signed = {
                number: found.signature
                for number, found in extras.items()
                if found.signature is not None
            }
            for signature in signed.values():
                self._gate.note_stored(signature)
            name = ENVELOPE_PREFIX + topic
            route = self._routes.cached.get(name) or self._routes.resolve(name)
            if route.targets and signed:
                payloads = batch.groups[topic].payloads
                sealed_ = [sealed(found, payloads[number]) for number, found in signed.items()]
                self._fanout.forward(route.targets, Live.of(name, sealed_), route.marked)
