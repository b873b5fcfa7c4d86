"""Messages as frames, in the form that one client takes.

The first of those who follow a topic makes the frames for all that take the same form: with
signatures of version 2 or without. A client may have said how large a frame it takes: a message
that is larger is withheld, and WITHHELD tells its sequence, so that the client can note and
acknowledge it; most stretches have none, and are sent as to anybody.
"""

from collections.abc import Sequence

from penstock.commit.feed import Stretch
from penstock.doors.binary.terms import BinaryTerms
from penstock.model.message import Extras, Message
from penstock.obs.counters import Counters
from penstock.obs.reasons import DropReason
from penstock.wire.binary import encode
from penstock.wire.binary.frame import HEADER, TRAILER_BYTES

TRAILER_BYTES_MAX = max(TRAILER_BYTES.values())


class MessageFrames:
    """The frames of one connection."""

    __slots__ = ("_counters", "_terms", "accepts_version_2")

    def __init__(self, terms: BinaryTerms, counters: Counters) -> None:
        self._terms = terms
        self._counters = counters
        self.accepts_version_2 = False

    def of(self, stretch: Stretch) -> bytes:
        if self._may_exceed(stretch.topic, stretch.payloads):
            return self._each(stretch)
        frames = stretch.forms.get(self.accepts_version_2)
        if frames is None:
            frames = stretch.forms[self.accepts_version_2] = self._all(stretch)
        return frames

    def live(self, topic: bytes, payloads: list[bytes]) -> bytes:
        """Of messages that the journal does not keep."""
        if self._may_exceed(topic, payloads):
            return b"".join([self._taken(topic, payload, 0, None) for payload in payloads])
        return encode.messages(topic, payloads, [0] * len(payloads))

    def of_job(self, job: Message, *, is_named: bool) -> bytes:
        """Without a signature to a client without a name, which would skip those."""
        return self._taken(job.topic, job.payload, job.sequence, job.extras if is_named else None)

    def of_retained(self, topic: bytes, payload: bytes, sequence: int) -> bytes:
        return self._taken(topic, payload, sequence, None)

    def _may_exceed(self, topic: bytes, payloads: Sequence[bytes]) -> bool:
        """Whether the client might not take one of these."""
        size_max = self._terms.frame_bytes_max
        if not size_max:
            return False
        head = HEADER.size + len(topic) + TRAILER_BYTES_MAX
        return head + max(map(len, payloads), default=0) > size_max

    def _all(self, stretch: Stretch) -> bytes:
        topic, payloads, sequence = stretch.topic, stretch.payloads, stretch.sequence
        if not stretch.extras:
            return encode.messages(topic, payloads, range(sequence, sequence + len(payloads)))
        return b"".join(
            [
                self._frame(topic, payload, sequence + number, stretch.extras.get(number))
                for number, payload in enumerate(payloads)
            ]
        )

    def _each(self, stretch: Stretch) -> bytes:
        return b"".join(
            [
                self._taken(
                    stretch.topic, payload, stretch.sequence + number, stretch.extras.get(number)
                )
                for number, payload in enumerate(stretch.payloads)
            ]
        )

    def _taken(self, topic: bytes, payload: bytes, sequence: int, extras: Extras | None) -> bytes:
        """A message as a frame, or WITHHELD."""
        frame = self._frame(topic, payload, sequence, extras)
        size_max = self._terms.frame_bytes_max
        if not size_max or len(frame) <= size_max:
            return frame
        self._counters.dropped(DropReason.TOO_LARGE, 1, self._terms.client_id, topic)
        return encode.withheld(topic, sequence, len(payload), size_max)

    def _frame(self, topic: bytes, payload: bytes, sequence: int, extras: Extras | None) -> bytes:
        signature = extras.signature if extras else None
        if signature is None or (signature.version == 2 and not self.accepts_version_2):
            return encode.message(topic, payload, sequence)
        return encode.signed_message(topic, payload, sequence, signature)
