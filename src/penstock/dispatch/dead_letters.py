"""Dead-letter topics: where messages go that failed as often as allowed, or were given up.

The dead-letter topic of a group is ``$dlq/<topic>/<group>``. Headers tell where a dead letter comes
from and why it failed. Every protocol can read the topic; no client can write to it. **Moving** a
message there is one commit: it adds the dead letter and settles the message in its group, so
that no crash loses or duplicates it. **Redriving** is the reverse, also in one commit: publish the
message to its original topic and settle the dead letter. A group of the dead-letter topic records
which ones are settled.

A dead letter keeps the signature of its message. The signature covers the original topic, so it is
valid again after a redrive. A dead letter without a signature is not redriven to a topic that
requires one.

In a cluster only the leader does either: two nodes at a time would make duplicates.
"""

from itertools import islice

from penstock.commit.completion import Callback
from penstock.core.commands import DeadLettered, Erased, GroupCommitted
from penstock.core.completion import Completion
from penstock.core.groups import Group
from penstock.dispatch.groups import GroupOperations
from penstock.dispatch.parts import RETRY_S, DispatchParts
from penstock.dispatch.reads import ReadResult, read_messages
from penstock.dispatch.topics import TopicOperations
from penstock.dispatch.unacked import ranges_of
from penstock.errors import StorageError
from penstock.model.dead_letters import REDRIVE, dead_letter_topic
from penstock.model.message import (
    FLAG_CONTENT_TYPE,
    FLAG_FIELDS,
    FLAG_PRIORITY,
    Extras,
    Message,
)
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason
from penstock.store.store import TopicRange

HEADER_PREFIX = b"dlq-"

AT_ONCE = 256
BYTES_AT_ONCE = 4 << 20
"""Messages and bytes moved by one commit."""

_MARKS = FLAG_PRIORITY | FLAG_CONTENT_TYPE | FLAG_FIELDS


class DeadLetters:
    """Moves messages to the dead-letter topics, and back."""

    def __init__(
        self, parts: DispatchParts, topics: TopicOperations, groups: GroupOperations
    ) -> None:
        self._parts = parts
        self._topics = topics
        self._groups = groups
        self._moving: set[tuple[bytes, bytes]] = set()  # topics and groups
        self._redriving: set[bytes] = set()  # dead-letter topics

    # ── to the dead-letter topic ──────────────────────────────────────────────────────────────

    def move_exhausted(self, topic: bytes, name: bytes) -> None:
        """Dead-letter the messages of a group that failed too often, some at a time."""
        group = self._parts.broker.groups.get(topic, name)
        if group is None or not group.exhausted or (topic, name) in self._moving:
            return
        if not self._parts.cluster.is_leader:
            return
        self._moving.add((topic, name))
        offsets = list(islice(group.exhausted, AT_ONCE))
        parts = self._parts
        parts.readers.run(
            lambda: read_messages(parts.store, topic, offsets, BYTES_AT_ONCE),
            lambda result: self._move(group, offsets, result),
            lambda _error: self._retry_move(topic, name),
        )

    def _move(self, group: Group, offsets: list[int], result: ReadResult) -> None:
        topic, name = group.topic, group.name
        if not self._parts.cluster.is_leader:
            self._moving.discard((topic, name))
            return
        if self._parts.broker.groups.get(topic, name) is not group:
            self._moving.discard((topic, name))  # the group was deleted
            self.move_exhausted(topic, name)
            return
        unread = set(result.unread)
        dead = [o for o in offsets if o not in unread and o in group.exhausted]
        dlq = dead_letter_topic(topic, name)
        self._topics.ensure(dlq)
        now_ms = self._parts.clock.wall_ms()
        self._parts.counters.dead_letters_total += len(dead)
        moved = Callback(
            lambda _value: self._moved(topic, name),
            lambda _reason, _detail: self._retry_move(topic, name),
        )
        with self._parts.pipeline.as_leader():
            for offset in dead:
                message = result.messages.get(offset)  # None: removed by retention
                if message is not None:
                    self._publish(dlq, message, _headers(group, message, now_ms), now_ms)
            self._parts.pipeline.submit(DeadLettered(topic, name, dead), moved, durable=True)

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

    def _moved(self, topic: bytes, name: bytes) -> None:
        self._moving.discard((topic, name))
        self.move_exhausted(topic, name)

    def _retry_move(self, topic: bytes, name: bytes) -> None:
        self._moving.discard((topic, name))
        self._parts.connections.loop.call_later(RETRY_S, self.move_exhausted, topic, name)

    # ── and back ──────────────────────────────────────────────────────────────────────────────

    def first(self, dlq: bytes) -> int:
        """The oldest dead letter that was neither redriven nor dropped."""
        group = self._parts.broker.groups.get(dlq, REDRIVE)
        earliest = self._topics.earliest(dlq)
        return max(group.next, earliest) if group else earliest

    def count(self, dlq: bytes) -> int:
        if self._topics.info(dlq) is None:
            return 0
        return self._parts.store.count_from(dlq, self.first(dlq))

    def is_redriving(self, dlq: bytes) -> bool:
        """Whether letters of this topic are being redriven or deleted."""
        return dlq in self._redriving

    def redrive(
        self, topic: bytes, group: bytes, maximum: int, completion: Completion[object]
    ) -> None:
        """Publish dead letters to their original topic again; the result is their number.

        New ones that arrive meanwhile are not redriven. A maximum of 0 means all.
        """
        dlq = dead_letter_topic(topic, group)
        count = self.count(dlq)
        if not self._parts.cluster.is_leader:
            completion.refused(DisconnectReason.LEADERSHIP_LOST)
            return
        if not count or dlq in self._redriving:
            completion.done(0)
            return
        self._redriving.add(dlq)
        wanted = min(maximum, count) if maximum else count
        _Redrive(self._parts, self, self._topics, dlq, wanted, completion).go_on()

    def choose(
        self, topic: bytes, group: bytes, offsets: list[int], *, send_back: bool
    ) -> "Chosen | None":
        """Redrive or delete these dead letters alone; None if letters are being moved already."""
        dlq = dead_letter_topic(topic, group)
        if dlq in self._redriving:
            return None
        self._redriving.add(dlq)
        return Chosen(self._parts, self, dlq, offsets, send_back=send_back)

    def drop(self, topic: bytes, group: bytes, completion: Completion[object]) -> None:
        """Drop the dead letters of a group; the result is their number."""
        dlq = dead_letter_topic(topic, group)
        count = self.count(dlq)
        if not count or dlq in self._redriving:
            completion.done(0)
            return
        dropped = Callback(lambda _value: completion.done(count), completion.refused)
        self.settle(dlq, self._topics.end(dlq), dropped)

    def send_back(self, message: Message, now_ms: int) -> bool:
        """Publish a dead letter to its original topic; False if it does not name one.

        If that topic was deleted, it is created again as a queue.
        """
        headers = message.extras.headers if message.extras else ()
        origin = _origin(message)
        if origin is None:
            return False
        if self._topics.info(origin) is None:
            self._topics.ensure(origin)
        own = tuple(header for header in headers if not header[0].startswith(HEADER_PREFIX))
        self._publish(origin, message, own, now_ms)
        return True

    def refusal(self, message: Message) -> str:
        """Why a dead letter cannot be redriven; empty if it can."""
        origin = _origin(message)
        is_signed = message.extras is not None and message.extras.signature is not None
        if origin is None or is_signed or not self._parts.gate.demands_signature(origin):
            return ""
        return (
            f"dead letter {message.offset} has no signature, and {printable(origin)} requires"
            " signed messages: publish it again with a signature, then drop the dead letters"
            " (penstock dlq drop)"
        )

    def settle(self, dlq: bytes, end: int, completion: Completion[object]) -> None:
        """Settle the dead letters before ``end``."""
        if self._parts.broker.groups.get(dlq, REDRIVE) is None:
            start = self.first(dlq)
            created = self._groups.create_command(dlq, REDRIVE, start, is_first=True)
            self._parts.pipeline.submit(created, None, durable=True)
        end = min(end, self._topics.end(dlq))  # the topic may be a new one now
        committed = GroupCommitted(dlq, REDRIVE, end, 0)
        self._parts.pipeline.submit(committed, completion, durable=True)

    def finished(self, dlq: bytes) -> None:
        self._redriving.discard(dlq)


class _Redrive:
    """One redrive; each commit moves some messages."""

    def __init__(
        self,
        parts: DispatchParts,
        dead_letters: DeadLetters,
        topics: TopicOperations,
        dlq: bytes,
        wanted: int,
        completion: Completion[object],
    ) -> None:
        self._parts = parts
        self._dead_letters = dead_letters
        self._topics = topics
        self._dlq = dlq
        self._left = wanted
        self._end = topics.end(dlq)  # those that come later stay
        self._completion = completion
        self._sent = 0
        self._refusal = ""  # why the next dead letter, and those after it, stay

    def go_on(self) -> None:
        if self._refusal:
            self._refused(DisconnectReason.SIGNATURE_REFUSED, self._refusal)
            return
        start = self._dead_letters.first(self._dlq)
        is_over = start >= min(self._end, self._topics.end(self._dlq))  # it may be deleted
        if is_over or not self._left:
            self._dead_letters.finished(self._dlq)
            self._completion.done(self._sent)
            return
        store, dlq, count = self._parts.store, self._dlq, min(self._left, AT_ONCE)
        self._parts.readers.run(
            lambda: store.read_topic(dlq, start, count, BYTES_AT_ONCE),
            self._send,
            self._unreadable,
        )

    def _send(self, found: TopicRange) -> None:
        """Publish the messages and settle their dead letters in one commit."""
        if not self._parts.cluster.is_leader:
            self._refused(DisconnectReason.LEADERSHIP_LOST)
            return
        now_ms = self._parts.clock.wall_ms()
        messages = [message for message in found.messages() if message.offset < self._end]
        end = min(messages[-1].offset + 1, self._end) if messages else self._end
        self._left -= len(messages)
        for place, message in enumerate(messages):
            self._refusal = self._dead_letters.refusal(message)
            if self._refusal:
                messages, end = messages[:place], message.offset
                break
        sent = Callback(lambda _value: self.go_on(), self._refused)
        with self._parts.pipeline.as_leader():
            self._sent += sum([self._dead_letters.send_back(m, now_ms) for m in messages])
            self._dead_letters.settle(self._dlq, end, sent)

    def _unreadable(self, error: StorageError) -> None:
        self._refused(DisconnectReason.STORAGE_FAILED, error.message)

    def _refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._dead_letters.finished(self._dlq)
        self._completion.refused(reason, detail)


class Chosen:
    """Redrives or deletes chosen dead letters, wherever they are among the others.

    They are taken out of their topic (``Erased``). A letter that is sent back and its removal are
    one commit, as for all others.
    """

    def __init__(
        self,
        parts: DispatchParts,
        dead_letters: DeadLetters,
        dlq: bytes,
        offsets: list[int],
        *,
        send_back: bool,
    ) -> None:
        self._parts = parts
        self._dead_letters = dead_letters
        self._dlq = dlq
        self._left = sorted(offsets)
        self._is_sent_back = send_back
        self.moved = 0
        self.refusal = ""  # why some of them stay

    def begin(self, completion: Completion[object]) -> None:
        """The result is ``moved``."""
        self._completion = completion
        self._go_on()

    def _go_on(self) -> None:
        if not self._left:
            self._dead_letters.finished(self._dlq)
            self._completion.done(self.moved)
            return
        some, parts = self._left[:AT_ONCE], self._parts
        parts.readers.run(
            lambda: read_messages(parts.store, self._dlq, some, BYTES_AT_ONCE),
            lambda result: self._move(some, result),
            lambda error: self._refused(DisconnectReason.STORAGE_FAILED, error.message),
        )

    def _move(self, some: list[int], result: ReadResult) -> None:
        info = self._parts.store.topic(self._dlq)
        if not self._parts.cluster.is_leader:
            self._refused(DisconnectReason.LEADERSHIP_LOST)
            return
        self._left = result.unread + self._left[len(some) :]
        first = self._dead_letters.first(self._dlq)
        found = [result.messages[o] for o in some if o >= first and o in result.messages]
        if self._is_sent_back:
            found = [message for message in found if not self._stays(message)]
        if info is None or not found:
            self._go_on()
            return
        now_ms = self._parts.clock.wall_ms()
        erased = Erased(self._dlq, info.id, ranges_of([message.offset for message in found]))
        done = Callback(lambda _count: self._moved(len(found)), self._refused)
        with self._parts.pipeline.as_leader():
            for message in found if self._is_sent_back else ():
                self._dead_letters.send_back(message, now_ms)
            self._parts.pipeline.submit(erased, done, durable=True)

    def _stays(self, message: Message) -> bool:
        why = self._dead_letters.refusal(message)
        if not why and _origin(message) is None:
            why = f"dead letter {message.offset} does not tell where it comes from"
        self.refusal = self.refusal or why
        return bool(why)

    def _moved(self, count: int) -> None:
        self.moved += count
        self._go_on()

    def _refused(self, reason: DisconnectReason, detail: str = "") -> None:
        self._dead_letters.finished(self._dlq)
        self._completion.refused(reason, detail)


def _origin(message: Message) -> bytes | None:
    return dict(message.extras.headers).get(b"dlq-topic") if message.extras else None


def _headers(group: Group, message: Message, now_ms: int) -> tuple[tuple[bytes, bytes], ...]:
    """The headers of a dead letter, followed by those of its message."""
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
