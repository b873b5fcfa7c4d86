"""What one client of the binary protocol publishes; each message is acknowledged on its commit."""

from typing import Protocol

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal
from penstock.core.session import Publisher
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies, not_authorized
from penstock.model.message import Extras
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.faults import SignatureFault
from penstock.trust.principal import Principal
from penstock.wire.binary.errors import ErrorCode, Fault, fault
from penstock.wire.binary.events import BinaryPublishRun, Event, SignedPublish


class PublishingConnection(Publisher, Protocol):
    """The connection of the client."""

    principal: Principal

    def fail(self, error: Fault, sequence: int) -> None: ...  # answer a request with an error
    def end_turn(self) -> None: ...
    def proved(self) -> None: ...  # a signed publish of it was accepted


class BinaryPublishing:
    """Handles the publishes of one connection."""

    __slots__ = ("_connection", "_door", "_replies")

    def __init__(
        self, door: BinaryParts, connection: PublishingConnection, replies: OrderedReplies
    ) -> None:
        self._door = door
        self._connection = connection
        self._replies = replies

    def publish(self, event: BinaryPublishRun, now_ms: int) -> None:
        topic, admission = event.topic, self._door.admission
        route = admission.admit(self._connection.principal, topic, len(event.sequences))
        if isinstance(route, Refusal):
            self._refuse(event.sequences, _no_topic(route, topic))
        elif route.policy > CAPTURED:
            refusal = admission.refuse_unsigned(topic, len(event.sequences))
            self._refuse(event.sequences, _unsigned(refusal))
        else:
            self._submit(topic, event.payloads, event.sequences, now_ms)

    def _refuse(self, sequences: list[int], error: Fault) -> None:
        for sequence in sequences:
            self._connection.fail(error, sequence)

    def _submit(
        self,
        topic: bytes,
        payloads: list[bytes],
        sequences: list[int],
        now_ms: int,
        extras: list[Extras | None] | None = None,
    ) -> None:
        door = self._door
        self._replies.await_publishes(len(sequences))
        door.connections.counters.messages_in_total[1] += len(payloads)
        door.pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=1,
            retain=False,
            packet_ids=sequences,
            client=self._connection,
            extras=extras,
        )

    def publish_signed(self, events: list[Event], position: int, now_ms: int) -> int:
        """Verify signed publishes in a row, some at a time; those of one topic go together."""
        accepted: list[SignedPublish] = []
        end = min(len(events), position + SIGNED_AT_ONCE)
        while position < end and isinstance(event := events[position], SignedPublish):
            position += 1
            refusal = self._refusal(event, now_ms)
            if accepted and (refusal is not None or event.topic != accepted[0].topic):
                self._submit_signed(accepted, now_ms)
                accepted = []
            if refusal is None:
                accepted.append(event)
            else:
                self._connection.fail(refusal, event.sequence)
        if accepted:
            self._submit_signed(accepted, now_ms)
        if position == end:
            self._connection.end_turn()
        return position

    def _refusal(self, event: SignedPublish, now_ms: int) -> Fault | None:
        admission = self._door.admission
        route = admission.admit_signed(self._connection.principal, event.topic)
        if isinstance(route, Refusal):
            return _no_topic(route, event.topic)
        if route.policy & ENVELOPES:  # the signature covers no message within
            return _unsigned(admission.refuse_unsigned(event.topic, 1))
        refused = admission.gate.admit_signed(event.topic, event.payload, event.signature, now_ms)
        if refused is None:
            return None
        self._door.connections.counters.dropped(
            DropReason.SIGNATURE_REFUSED, 1, b"", event.topic, detail=refused.detail
        )
        return Fault(_CODES[refused.reason], refused.text)

    def _submit_signed(self, events: list[SignedPublish], now_ms: int) -> None:
        self._connection.proved()
        self._submit(
            events[0].topic,
            [event.payload for event in events],
            [event.sequence for event in events],
            now_ms,
            [Extras(signature=event.signature) for event in events],
        )


def _no_topic(refusal: Refusal, topic: bytes) -> Fault:
    if refusal.reason is DisconnectReason.NOT_AUTHORIZED:
        return not_authorized(topic)
    return fault(ErrorCode.TOPIC_INVALID, why=refusal.text)


def _unsigned(refusal: Refusal) -> Fault:
    is_envelope = refusal.text == ErrorCode.ENVELOPE_REQUIRED.text
    code = ErrorCode.ENVELOPE_REQUIRED if is_envelope else ErrorCode.SIGNATURE_REQUIRED
    return Fault(code, refusal.text)


_CODES = {
    SignatureFault.UNSIGNED: ErrorCode.SIGNATURE_REQUIRED,
    SignatureFault.VERSION_REFUSED: ErrorCode.SIGNATURE_VERSION,
    SignatureFault.UNKNOWN_KEY: ErrorCode.SIGNATURE_INVALID,
    SignatureFault.REVOKED_KEY: ErrorCode.SIGNATURE_INVALID,
    SignatureFault.EXPIRED_KEY: ErrorCode.SIGNATURE_INVALID,
    SignatureFault.BAD_SIGNATURE: ErrorCode.SIGNATURE_INVALID,
    SignatureFault.NOT_AUTHORIZED: ErrorCode.KEY_NOT_AUTHORIZED,
    SignatureFault.STALE: ErrorCode.SIGNATURE_STALE,
    SignatureFault.AHEAD: ErrorCode.SIGNATURE_STALE,
    SignatureFault.BEFORE_START: ErrorCode.SIGNATURE_STALE,
    SignatureFault.REPLAYED: ErrorCode.SIGNATURE_STALE,
    SignatureFault.WINDOW_FULL: ErrorCode.SIGNATURES_BUSY,
}
