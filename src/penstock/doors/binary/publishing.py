"""What one client of the binary protocol publishes; each message is acknowledged on its commit.

Those that want no reply are not. Repetitions of clients that number their messages are acknowledged
with their first copies (``numbered``).
"""

from typing import Protocol

from penstock.access.admission import CAPTURED, ENVELOPES, Refusal
from penstock.core.live import Live
from penstock.core.session import Publisher
from penstock.doors.binary.numbered import FirstCopy
from penstock.doors.binary.parts import BinaryParts
from penstock.doors.binary.replies import OrderedReplies, not_authorized
from penstock.doors.binary.terms import BinaryTerms
from penstock.model.message import FLAG_RETAIN_UNKEPT, Extras
from penstock.net.connection import SIGNED_AT_ONCE
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.trust.faults import SignatureFault
from penstock.trust.principal import Principal
from penstock.wire.binary import encode
from penstock.wire.binary.errors import ErrorCode, Fault, fault
from penstock.wire.binary.events import BinaryPublishRun, Event, SignedPublish
from penstock.wire.binary.frame import PublishFlag


class PublishingConnection(Publisher, Protocol):
    """The connection of the client."""

    principal: Principal
    terms: BinaryTerms
    reason: DisconnectReason | None  # None while it is open

    def close(self, reason: DisconnectReason, detail: str = "") -> None: ...
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
            self._submit(
                topic,
                event.payloads,
                event.sequences,
                now_ms,
                retain=bool(event.flags & PublishFlag.RETAIN),
            )

    def publish_silently(self, event: BinaryPublishRun, now_ms: int) -> None:
        """Messages without a reply: live at once, journaled in the background, as MQTT QoS 0."""
        door, topic, payloads = self._door, event.topic, event.payloads
        admission, principal = door.admission, self._connection.principal
        route = admission.admit(principal, topic, len(payloads))
        counters = door.connections.counters
        if isinstance(route, Refusal) or route.policy > CAPTURED:
            counters.refused_total += len(payloads)
            if not isinstance(route, Refusal):
                admission.refuse_unsigned(topic, len(payloads))
            elif route.reason is not DisconnectReason.NOT_AUTHORIZED:  # that is counted already
                counters.dropped(DropReason.TOPIC_REFUSED, len(payloads), detail=route.text)
            return
        counters.messages_in_total[0] += len(payloads)
        if route.targets:
            door.fanout.forward(route.targets, Live.of(topic, payloads), route.marked)
        if event.flags & PublishFlag.RETAIN:
            self._retain(topic, payloads, now_ms)
        elif route.policy:
            door.pipeline.capture(topic, payloads, now_ms)
        else:
            door.cluster.broadcast(topic, payloads)

    def _retain(self, topic: bytes, payloads: list[bytes], now_ms: int) -> None:
        retain, marks = self._kept(topic, payloads, retain=True)
        author = self._connection.principal.author
        self._door.pipeline.publish(
            topic, payloads, now_ms, qos=0, retain=retain, marks=marks, author=author
        )

    def _kept(self, topic: bytes, payloads: list[bytes], *, retain: bool) -> tuple[bool, int]:
        """Whether the last of the messages is retained; the flags of those that should have been.

        Without room they are delivered only, and counted.
        """
        if not retain:
            return False, 0
        if self._door.admission.may_retain(topic, payloads[-1]):
            return True, 0
        return False, FLAG_RETAIN_UNKEPT

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
        *,
        retain: bool = False,
    ) -> None:
        if not self._connection.terms.deduplicates:
            self._publish(topic, payloads, sequences, now_ms, extras, retain=retain)
            return
        signature = extras[0].signature if extras and extras[0] else None
        producer = self._connection.terms.producer(
            self._connection.principal.user, signature.key_id if signature else None
        )
        numbered = self._door.numbered
        for copy, start, end in numbered.stretches(topic, producer, sequences):
            part = sequences[start:end]
            if copy is not FirstCopy.NONE:
                self._repeated(topic, producer, part, is_stored=copy is FirstCopy.STORED)
                continue
            some = extras[start:end] if extras else None
            self._publish(topic, payloads[start:end], part, now_ms, some, retain=retain)
            numbered.published(topic, producer, range(part[0], part[-1] + 1), now_ms)

    def _repeated(
        self, topic: bytes, producer: bytes, sequences: list[int], *, is_stored: bool
    ) -> None:
        """Acknowledge repetitions; those whose first copies are pending with these."""
        self._door.connections.counters.repeated_publishes_total += len(sequences)
        if not is_stored:
            self._door.numbered.await_first(topic, producer, sequences, self._connection)
            self._replies.await_acknowledgement()
            self._door.pipeline.barrier(self._replies.acknowledged)
        self._replies.answer(encode.acks(sequences))

    def _publish(
        self,
        topic: bytes,
        payloads: list[bytes],
        sequences: list[int],
        now_ms: int,
        extras: list[Extras | None] | None,
        *,
        retain: bool,
    ) -> None:
        door = self._door
        self._replies.await_publishes(len(sequences))
        door.connections.counters.messages_in_total[1] += len(payloads)
        retain, marks = self._kept(topic, payloads, retain=retain)
        door.pipeline.publish(
            topic,
            payloads,
            now_ms,
            qos=1,
            retain=retain,
            packet_ids=sequences,
            client=self._connection,
            extras=extras,
            marks=marks,
            author=self._connection.principal.author if retain else "",
        )

    def publish_signed(self, events: list[Event], position: int, now_ms: int) -> int:
        """Verify signed publishes in a row, some at a time; those of one topic and key together."""
        accepted: list[SignedPublish] = []
        end = min(len(events), position + SIGNED_AT_ONCE)
        while position < end and isinstance(event := events[position], SignedPublish):
            position += 1
            refusal = self._refusal(event, now_ms)
            if accepted and (refusal is not None or not _is_alike(event, accepted[0])):
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


def _is_alike(event: SignedPublish, first: SignedPublish) -> bool:
    """Whether they may be published together: each key numbers its messages by itself."""
    is_same_key = event.signature.key_id == first.signature.key_id
    return is_same_key and event.topic == first.topic


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
