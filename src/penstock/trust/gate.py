"""The gate that every door asks before it accepts a publish, or removes messages.

A door calls ``admit_signed`` for a publish with a signature; for others ``admit_unsigned``, or
``demands_signature`` where it caches the answer by topic. None means accepted. A refusal is already
counted. The replay window is checked last: only an accepted signature may take a place in it.
"""

from penstock.model.dead_letters import PREFIX as DEAD_PREFIX
from penstock.model.dead_letters import REDRIVE, origin
from penstock.model.message import Signature
from penstock.trust.faults import SignatureFault, SignatureRefusal
from penstock.trust.keys import KeyRing
from penstock.trust.policy import Policy
from penstock.trust.replay import ReplayWindow


class Gate:
    """One for all doors. ``failures`` counts refusals by fault, with all faults present."""

    __slots__ = ("_policy", "_ring", "_window", "failures", "verifications_total")

    def __init__(self, ring: KeyRing, policy: Policy, window: ReplayWindow) -> None:
        self._ring = ring
        self._policy = policy
        self._window = window
        self.failures = dict.fromkeys(SignatureFault, 0)
        self.verifications_total = 0  # signed publishes that were judged, accepted or not

    def demands_signature(self, topic: bytes) -> bool:
        """Whether a publish to this topic must be signed. Nothing is counted."""
        return self._policy.of(topic).required

    def admit_unsigned(self, topic: bytes, count: int = 1) -> SignatureRefusal | None:
        if not self.demands_signature(topic):
            return None
        return self._refuse(SignatureFault.UNSIGNED, topic, count)

    def admit_removal(self, topic: bytes) -> SignatureRefusal | None:
        """Refuse to remove messages of a topic that requires signatures, or its dead letters.

        Every door calls this before it trims, deletes or expires messages, deletes a topic or
        changes its retention, because its clients are not authenticated. Administration pages are,
        and do not call it.
        """
        if not self.demands_signature(origin(topic)[0] if topic.startswith(DEAD_PREFIX) else topic):
            return None
        return self._refuse(SignatureFault.PROTECTED, topic)

    def admit_group(self, topic: bytes, group: bytes) -> SignatureRefusal | None:
        """Refuse the redrive group where dead letters are protected: using it removes them."""
        is_account = group == REDRIVE and topic.startswith(DEAD_PREFIX)
        return self.admit_removal(topic) if is_account else None

    def admit_signed(
        self, topic: bytes, payload: bytes, signature: Signature, now_ms: int
    ) -> SignatureRefusal | None:
        """Refuse a publish with an invalid signature; ``now_ms`` is wall-clock time."""
        self.verifications_total += 1
        fault = self._fault(topic, payload, signature, now_ms)
        if fault is None:
            return None
        return self._refuse(fault, topic, detail=self._detail(fault, signature, now_ms))

    def _detail(self, fault: SignatureFault, signature: Signature, now_ms: int) -> str:
        who = f"{fault.value}: key {signature.key_id}"
        if fault not in {SignatureFault.STALE, SignatureFault.AHEAD}:
            return who
        age_s = (now_ms - signature.signed_ms) / 1000
        when = f"{age_s:.0f} s ago" if age_s >= 0 else f"{-age_s:.0f} s in the future"
        return f"{who} signed {when}, the window is {self._window.window_ms // 1000} s"

    def _fault(
        self, topic: bytes, payload: bytes, signature: Signature, now_ms: int
    ) -> SignatureFault | None:
        if signature.version not in self._policy.of(topic).versions:
            return SignatureFault.VERSION_REFUSED
        if fault := self._ring.judge(topic, payload, signature, now_ms):
            return fault
        if signature.version == 1:
            return None
        return self._window.check(signature.key_id, signature.nonce, signature.signed_ms, now_ms)

    def note_stored(self, signature: Signature) -> None:
        """Note that the message of an accepted signature is on disk, whichever node accepted it."""
        if signature.version != 1:
            self._window.note_stored(signature.key_id, signature.nonce, signature.signed_ms)

    def note_failed(self, signature: Signature) -> None:
        """Note that the message was not stored, so that it may be sent again."""
        if signature.version != 1:
            self._window.forget(signature.key_id, signature.nonce, signature.signed_ms)

    def is_stored(self, signature: Signature) -> bool:
        """Whether the message of a signature just refused as ``REPLAYED`` is on disk."""
        return self._window.is_stored(signature.key_id, signature.nonce, signature.signed_ms)

    def _refuse(
        self, fault: SignatureFault, topic: bytes, count: int = 1, detail: str = ""
    ) -> SignatureRefusal:
        self.failures[fault] += count
        return SignatureRefusal.of(fault, topic, detail)
