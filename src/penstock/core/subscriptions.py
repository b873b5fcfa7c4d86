"""Which filters have which subscribers, and which of them match a topic.

A filter without wildcards only matches the topic of the same name, so it needs no tree: ``match``
looks up the topic among the filters. Only wildcard filters are in the ``LevelTree``.

Most filters have one subscriber, and a dict for one entry takes 232 bytes where a pair takes 56. So
an **audience** is a pair ``(subscriber, qos)`` while it has one member, and a dict from two on;
only ``_unpacked`` and ``_packed`` know.
"""

from collections.abc import Collection, Hashable, Iterator
from typing import Generic, TypeVar

from penstock.core.level_tree import LevelTree
from penstock.model.topic import has_wildcard

Subscriber = TypeVar("Subscriber", bound=Hashable)

Audience = tuple[Subscriber, int] | dict[Subscriber, int]


class SubscriptionTrie(Generic[Subscriber]):
    """All subscriptions; ``len()`` counts ``(filter, subscriber)`` pairs."""

    __slots__ = ("_audiences", "_count", "_wildcards")

    def __init__(self) -> None:
        self._audiences: dict[bytes, Audience[Subscriber]] = {}
        self._wildcards = LevelTree()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def subscribe(self, topic_filter: bytes, subscriber: Subscriber, qos: int) -> bool:
        """Add a subscription, or replace its QoS [MQTT-3.8.4-3]; return whether it is new."""
        audience = self._audiences.get(topic_filter)
        if audience is None and has_wildcard(topic_filter):
            self._wildcards.add(topic_filter)
        granted = _unpacked(audience)
        is_new = subscriber not in granted
        granted[subscriber] = qos
        self._audiences[topic_filter] = _packed(granted)
        self._count += is_new
        return is_new

    def unsubscribe(self, topic_filter: bytes, subscriber: Subscriber) -> bool:
        """Remove a subscription, compared by byte [MQTT-3.10.4-1]; return whether it existed."""
        granted = _unpacked(self._audiences.get(topic_filter))
        if subscriber not in granted:
            return False
        del granted[subscriber]
        self._count -= 1
        if granted:
            self._audiences[topic_filter] = _packed(granted)
            return True
        del self._audiences[topic_filter]
        if has_wildcard(topic_filter):
            self._wildcards.remove(topic_filter)
        return True

    def qos(self, topic_filter: bytes, subscriber: Subscriber) -> int | None:
        return _unpacked(self._audiences.get(topic_filter)).get(subscriber)

    def audience(self, topic_filter: bytes) -> Collection[Subscriber]:
        return _unpacked(self._audiences.get(topic_filter)).keys()

    def filters(self) -> Collection[bytes]:
        return self._audiences.keys()

    def audiences(self, topic: bytes) -> Iterator[dict[Subscriber, int]]:
        """The subscribers of each filter that matches the topic; not to be changed."""
        if topic in self._audiences:
            yield _unpacked(self._audiences[topic])
        for topic_filter in self._wildcards.filters_matching(topic):
            yield _unpacked(self._audiences[topic_filter])

    def match(self, topic: bytes) -> dict[Subscriber, int]:
        """Every subscriber of the topic once, with its highest QoS [MQTT-3.3.5-1]; a new dict."""
        granted = _unpacked(self._audiences.get(topic)).copy()
        for topic_filter in self._wildcards.filters_matching(topic):
            for subscriber, qos in _unpacked(self._audiences[topic_filter]).items():
                if granted.get(subscriber, -1) < qos:
                    granted[subscriber] = qos
        return granted


def _unpacked(audience: Audience[Subscriber] | None) -> dict[Subscriber, int]:
    if isinstance(audience, dict):
        return audience
    return {} if audience is None else dict((audience,))


def _packed(granted: dict[Subscriber, int]) -> Audience[Subscriber]:
    return granted if len(granted) > 1 else next(iter(granted.items()))
