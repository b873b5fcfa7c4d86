"""Operations on topics: create, configure, delete, and where a topic begins and ends."""

from collections.abc import Callable
from functools import partial

import msgspec

from penstock.commit.completion import Callback
from penstock.core.commands import TopicConfigured, TopicGone
from penstock.core.completion import Completion
from penstock.core.effects import TopicEnded
from penstock.dispatch.parts import DispatchParts
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.retention.topic_limits import TopicLimits
from penstock.store.store import TopicInfo


class TopicOperations:
    """All topics; ``dispatch_all`` is called with a topic that may have something to dispatch."""

    def __init__(self, parts: DispatchParts, dispatch_all: Callable[[bytes], None]) -> None:
        self._parts = parts
        self._dispatch_all = dispatch_all
        self.limits = TopicLimits(parts.broker, parts.store, parts.readers, dispatch_all)
        # Topics whose creation is being committed. Whether they are queues is decided: when their
        # first message is on disk before that, they must not look like logs of another protocol.
        self._creating: set[bytes] = set()

    def info(self, topic: bytes) -> TopicInfo | None:
        """The journal's record of a topic; None also while it is being deleted.

        Offsets of a topic that is being deleted are useless: they begin anew afterwards.
        """
        return None if self._parts.pipeline.is_dropping(topic) else self._parts.store.topic(topic)

    def end(self, topic: bytes) -> int:
        """The offset of the next message of a topic."""
        info = self.info(topic)
        return info.next_offset if info else 0

    def earliest(self, topic: bytes) -> int:
        """The oldest message that a new group gets."""
        info = self.info(topic)
        return self.limits.low(info) if info else 0

    def messages(self, topic: bytes) -> int:
        """The number of messages that are neither finished nor beyond the topic's limits."""
        info = self.info(topic)
        if info is None:
            return 0
        low = self.limits.low(info)
        deleted = info.deleted if low == info.first_offset else 0
        return max(info.next_offset - low - deleted, 0)

    def ensure(self, topic: bytes, completion: Completion[object] | None = None) -> None:
        """Create a topic if it does not exist. An existing one keeps its messages and settings."""
        is_created = topic in self._creating and completion is None
        if not is_created and not self._exists(topic):
            self.configure(TopicConfigured(topic), completion)
        elif completion is not None:
            completion.done(0)

    def configure(
        self, command: TopicConfigured, completion: Completion[object] | None = None
    ) -> None:
        """Create a topic or change its settings."""
        topic = command.topic
        if not self._exists(topic):
            if command.keep is None and topic not in self._creating:
                is_log = self.info(topic) is not None
                command = msgspec.structs.replace(command, keep=is_log)
            self._creating.add(topic)

        def done(value: object) -> None:
            self._creating.discard(topic)
            if completion is not None:
                completion.done(value)
            self._dispatch_all(topic)

        def refused(reason: DisconnectReason, detail: str) -> None:
            self._creating.discard(topic)
            if completion is not None:
                completion.refused(reason, detail)

        self._parts.pipeline.submit(command, Callback(done, refused), durable=True)

    def _exists(self, topic: bytes) -> bool:
        """Whether a topic was created and will still exist after the commits that are pending."""
        is_created = self._parts.broker.topics.get(topic) is not None
        return is_created and not self._parts.pipeline.is_dropping(topic)

    def delete(self, topic: bytes, completion: Completion[object]) -> None:
        """Delete a topic with its messages, groups and settings."""
        info = self._parts.store.topic(topic)
        if info is None and self._parts.broker.topics.get(topic) is None:
            groups = self._parts.broker.groups.by_topic.get(topic)
            if not groups:
                completion.done(0)
                return
        count = info.count if info else 0
        self._creating.discard(topic)

        def refused(reason: DisconnectReason, detail: str) -> None:
            completion.refused(reason, detail)
            self._dispatch_all(topic)

        deleted = partial(self._deleted, topic, count, completion)
        self._parts.pipeline.drop_topic(topic, TopicGone(topic), Callback(deleted, refused))

    def _deleted(
        self, topic: bytes, count: int, completion: Completion[object], value: object
    ) -> None:
        """The command was applied. If its commit is not on disk yet, wait for that."""
        if self._parts.pipeline.is_dropping(topic):
            again = partial(self._deleted, topic, count, completion, value)
            self._parts.pipeline.when_committed(again)
            return
        self._parts.counters.dropped(DropReason.TOPIC_DELETED, count, topic=topic)
        self._notify_deleted(topic)
        completion.done(value)
        self._dispatch_all(topic)  # workers wait for the next topic of this name

    def ended(self, effect: TopicEnded) -> None:
        """Another node deleted a topic."""
        self._notify_deleted(effect.topic)
        self._dispatch_all(effect.topic)

    def _notify_deleted(self, topic: bytes) -> None:
        for client in list(self._parts.connections.clients):
            client.topic_deleted(topic)
