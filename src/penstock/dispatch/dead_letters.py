"""Dead letters: messages that failed as often as their group allows.

They go to a topic of their own, ``$dlq/<topic>/<group>``, with headers that say where they come
from and what became of them. Any door can read it; no client can write to it. **Burying** is one
commit that has the letter and that its group is done with the message, so there is neither a loss
nor a second copy, whatever crashes. **Redriving** is the same the other way: one commit has the
message, back in the topic that it came from, and that the letter is dealt with. Which letters are,
is the position of a group of the dead-letter topic itself.

A letter keeps the signature of its message. That covers the topic that the message was published
to, so it is right again when the letter is sent back there. A letter without one is not sent to a
topic that takes signed messages only.

In a cluster only the leader does either: two nodes that bury at a time would make two letters.
"""

from itertools import islice
from typing import Protocol

from penstock.commit.completion import Callback
from penstock.core.commands import DeadLettered, GroupCommitted, GroupMade
from penstock.core.completion import Completion
from penstock.core.groups import Group
from penstock.dispatch.dispatcher import AGAIN_S, Lot, read_messages
from penstock.dispatch.parts import DispatchParts
from penstock.errors import StorageError
from penstock.model.dead_letters import REDRIVE, dead_letter_topic
from penstock.model.message import (
    FLAG_CONTENT_TYPE,
    FLAG_FIELDS,
    FLAG_PRIORITY,
    Extras,
    Message,
)
from penstock.obs.log import printable
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import TopicInfo, TopicRange

HEADER_PREFIX = b"dlq-"

AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
"""Letters moved by one commit."""

_MARKS = FLAG_PRIORITY | FLAG_CONTENT_TYPE | FLAG_FIELDS


class DeadLetterTopics(Protocol):
    """What dead letters ask about topics, and do to them."""

    def info(self, topic: bytes) -> TopicInfo | None: ...

    def earliest(self, topic: bytes) -> int: ...

    def end(self, topic: bytes) -> int: ...

    def ensure_topic(self, topic: bytes) -> None: ...

    def group_made(
        self, topic: bytes, group: bytes, start: int, *, is_first: bool, reader: bool = False
    ) -> GroupMade: ...


class DeadLetters:
    """Moves messages to their last place, and back."""

    def __init__(self, parts: DispatchParts, topics: DeadLetterTopics) -> None:
        self._parts = parts
        self._topics = topics
        self._burying: set[tuple[bytes, bytes]] = set()
        """Groups whose letters are on their way."""
        self._redriving: set[bytes] = set()
        """Dead-letter topics from which letters are on their way back."""

    # ── burying ───────────────────────────────────────────────────────────────────────────────

    def bury(self, topic: bytes, name: bytes) -> None:
        """Put messages that failed too often with the dead letters, some at a time."""
        group = self._parts.broker.groups.get(topic, name)
        if group is None or not group.exhausted or (topic, name) in self._burying:
            return
        if not self._parts.cluster.is_leader:
            return
        self._burying.add((topic, name))
        offsets = list(islice(group.exhausted, AT_ONCE))
        parts = self._parts
        parts.readers.run(
            lambda: read_messages(parts, topic, offsets, BYTES_AT_ONCE),
            lambda lot: self._bury(group, offsets, lot),
            lambda _error: self._bury_later(topic, name),
        )

    def _bury(self, group: Group, offsets: list[int], lot: Lot) -> None:
        topic, name = group.topic, group.name
        if not self._parts.cluster.is_leader:
            self._burying.discard((topic, name))
            return
        if self._parts.broker.groups.get(topic, name) is not group:
            self._burying.discard((topic, name))  # it ended, and its messages are nobody's
            self.bury(topic, name)
            return
        unread = set(lot.unread)
        dead = [o for o in offsets if o not in unread and o in group.exhausted]
        letters = dead_letter_topic(topic, name)
        self._topics.ensure_topic(letters)
        now_ms = self._parts.clock.wall_ms()
        self._parts.counters.dead_letters_total += len(dead)
        buried = Callback(
            lambda _value: self._buried(topic, name),
            lambda _reason, _detail: self._bury_later(topic, name),
        )
        with self._parts.pipeline.as_leader():
            for offset in dead:
                message = lot.messages.get(offset)  # None: retention was faster
                if message is not None:
                    self._publish(letters, message, _post_mortem(group, message, now_ms), now_ms)
            self._parts.pipeline.submit(DeadLettered(topic, name, dead), buried, durable=True)

    def _publish(
        self, topic: bytes, message: Message, headers: tuple[tuple[bytes, bytes], ...], now_ms: int
    ) -> None:
        signature = message.extras.signature if message.extras else None
        self._parts.pipeline.publish(
            topic,
            [message.payload],
            now_ms,
            qos=1,
            retain=False,
            extras=[Extras(headers, signature)] if headers or signature else None,
            marks=message.flags & _MARKS,
        )

    def _buried(self, topic: bytes, name: bytes) -> None:
        self._burying.discard((topic, name))
        self.bury(topic, name)

    def _bury_later(self, topic: bytes, name: bytes) -> None:
        self._burying.discard((topic, name))
        self._parts.connections.loop.call_later(AGAIN_S, self.bury, topic, name)

    # ── redriving ─────────────────────────────────────────────────────────────────────────────

    def first(self, letters: bytes) -> int:
        """The oldest letter of a dead-letter topic that was neither sent back nor dropped."""
        group = self._parts.broker.groups.get(letters, REDRIVE)
        earliest = self._topics.earliest(letters)
        return max(group.next, earliest) if group else earliest

    def count(self, letters: bytes) -> int:
        """How many letters a dead-letter topic has."""
        info = self._topics.info(letters)
        return max(info.next_offset - self.first(letters), 0) if info else 0

    def redrive(self, topic: bytes, group: bytes, maximum: int, waiter: Completion[object]) -> None:
        """Send dead letters back where they came from; ``waiter`` learns how many that were.

        Those that come while this goes on are left for another time; 0 for the maximum: all.
        """
        letters = dead_letter_topic(topic, group)
        count = self.count(letters)
        if not self._parts.cluster.is_leader:
            waiter.refused(DisconnectReason.LEADERSHIP_LOST)
            return
        if not count or letters in self._redriving:
            waiter.done(0)
            return
        self._redriving.add(letters)
        end = self.first(letters) + (min(maximum, count) if maximum else count)
        _Redrive(self._parts, self, self._topics, letters, end, waiter).go_on()

    def drop(self, topic: bytes, group: bytes, waiter: Completion[object]) -> None:
        """Be done with the dead letters of a group; ``waiter`` learns how many that were."""
        letters = dead_letter_topic(topic, group)
        count = self.count(letters)
        if not count or letters in self._redriving:
            waiter.done(0)
            return
        dropped = Callback(lambda _value: waiter.done(count), waiter.refused)
        self.settle(letters, self.first(letters) + count, dropped)

    def send_back(self, message: Message, now_ms: int) -> bool:
        """Publish a letter where it came from; False if it does not say where that is.

        If that topic was deleted, it is made again as one that lets go of what is done: its letters
        are work that somebody wants to have done.
        """
        headers = message.extras.headers if message.extras else ()
        origin = _origin(message)
        if origin is None:
            return False
        if self._topics.info(origin) is None:
            self._topics.ensure_topic(origin)
        own = tuple(header for header in headers if not header[0].startswith(HEADER_PREFIX))
        self._publish(origin, message, own, now_ms)
        return True

    def refusal(self, message: Message) -> str:
        """Say why a letter may not be sent back; empty if it may."""
        origin = _origin(message)
        is_signed = message.extras is not None and message.extras.signature is not None
        if origin is None or is_signed or not self._parts.gate.demands_signature(origin):
            return ""
        return (
            f"dead letter {message.offset} has no signature, and {printable(origin)} takes signed"
            " messages only: have it published again by whoever can sign it, then drop the letters"
            " (penstock dlq drop)"
        )

    def settle(self, letters: bytes, end: int, waiter: Completion[object]) -> None:
        """Letters before ``end`` are dealt with."""
        if self._parts.broker.groups.get(letters, REDRIVE) is None:
            dispatchers = self._topics
            made = dispatchers.group_made(letters, REDRIVE, self.first(letters), is_first=True)
            self._parts.pipeline.submit(made, None, durable=True)
        end = min(end, self._topics.end(letters))  # if it ended, others come to these offsets
        committed = GroupCommitted(letters, REDRIVE, end, 0)
        self._parts.pipeline.submit(committed, waiter, durable=True)

    def finished(self, letters: bytes) -> None:
        """A redrive has ended."""
        self._redriving.discard(letters)


class _Redrive:
    """Letters on their way back, some with each commit."""

    def __init__(
        self,
        parts: DispatchParts,
        dead_letters: DeadLetters,
        topics: DeadLetterTopics,
        letters: bytes,
        end: int,
        waiter: Completion[object],
    ) -> None:
        self._parts = parts
        self._dead_letters = dead_letters
        self._topics = topics
        self._letters = letters
        self._end = end
        self._waiter = waiter
        self._sent = 0
        self._refusal = ""
        """Why the next letter is not sent back, nor those behind it."""

    def go_on(self) -> None:
        """Read the next letters, if there are any."""
        if self._refusal:
            self._refused(DisconnectReason.SIGNATURE_REFUSED, self._refusal)
            return
        start = self._dead_letters.first(self._letters)
        if start >= min(self._end, self._topics.end(self._letters)):  # the topic may be gone
            self._dead_letters.finished(self._letters)
            self._waiter.done(self._sent)
            return
        store, letters, count = self._parts.store, self._letters, min(self._end - start, AT_ONCE)
        self._parts.readers.run(
            lambda: store.read_topic(letters, start, count, BYTES_AT_ONCE),
            self._send,
            self._unreadable,
        )

    def _send(self, found: TopicRange) -> None:
        """One commit has the messages and that their letters are dealt with."""
        if not self._parts.cluster.is_leader:
            self._refused(DisconnectReason.LEADERSHIP_LOST)
            return
        now_ms = self._parts.clock.wall_ms()
        messages = [message for message in found.messages() if message.offset < self._end]
        end = min(found.next_offset, self._end) if messages else self._end
        for place, message in enumerate(messages):
            self._refusal = self._dead_letters.refusal(message)
            if self._refusal:
                messages, end = messages[:place], message.offset
                break
        sent = Callback(lambda _value: self.go_on(), self._refused)
        with self._parts.pipeline.as_leader():
            self._sent += sum([self._dead_letters.send_back(m, now_ms) for m in messages])
            self._dead_letters.settle(self._letters, end, sent)

    def _unreadable(self, error: StorageError) -> None:
        self._refused(DisconnectReason.STORAGE_FAILED, error.message)

    def _refused(self, reason: DisconnectReason, detail: str = "") -> None:
        """The disk refused: nothing of this step has happened."""
        self._dead_letters.finished(self._letters)
        self._waiter.refused(reason, detail)


def _origin(letter: Message) -> bytes | None:
    """The topic that a letter comes from."""
    return dict(letter.extras.headers).get(b"dlq-topic") if letter.extras else None


def _post_mortem(group: Group, message: Message, now_ms: int) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a dead letter: where it comes from, what became of it, its own."""
    pending = group.pending[message.offset]
    own = message.extras.headers if message.extras else ()
    return (
        (b"dlq-topic", group.topic),
        (b"dlq-group", group.name),
        (b"dlq-offset", b"%d" % message.offset),
        (b"dlq-attempts", b"%d" % pending.deliveries),
        (b"dlq-reason", pending.reason),
        (b"dlq-time", b"%d" % now_ms),
        *(header for header in own if not header[0].startswith(HEADER_PREFIX)),
    )
