"""The cache in front of the subscriptions: topic to targets, always up to date.

A publish needs one dict lookup, not a walk. ``Routes.cached`` is that dict, open to the caller::

    route = routes.cached.get(topic) or routes.resolve(topic)

Topics without subscribers are cached too, as a busy one must not cost a walk each time. All changes
of subscriptions go through ``Routes``, which forgets exactly the routes that the changed filter
matches: one key for a plain filter, and for a wildcard what the ``TopicTree`` of cached topics
finds. A filter that is too wide to look up quickly empties the cache, and so do many that are
nearly as wide: a client that subscribes to ``+/+/x`` again and again, or leaves with ten thousand
filters at once, then does not stall others for long. Subscribing again with the same QoS, as
clients do whenever they reconnect, forgets nothing.

**Invariant**: for every cached topic, ``targets`` is what the subscriptions give at this moment. A
``Route`` taken from the cache is valid at that moment only; look it up again after any change.

**Marks.** Subscriptions are integers (``core.subscription_options``); ``targets`` has the QoS
alone. What else they say is in ``Route.marked``, for the few subscribers that have such. While no
subscription is more than its QoS, nothing of this costs anything.

**Patterns** are subscriptions by any rule that is not a filter: the caller provides the function.
It is called once per topic and route, never per message; subscribers of the same pattern share the
call. A pattern that comes or goes empties the cache: checking it for each cached topic would cost
as much, and thousands of them, at the end of a connection, thousands of times that. As for filters,
a pattern that begins with a wildcard does not match topics that begin with ``$`` [MQTT-4.7.2-1].

**Narrowing.** Where there are users, ``may_receive`` is asked once per subscriber and route, too: a
subscription to ``#`` gets what its user may receive of it.

The cache is bounded, first in, first out: a busy topic comes back at the price of one walk.
Eviction removes many at once, since finding the oldest key of a dict steps over the places of keys
deleted before it. ``cached_max=0`` disables the cache.
"""

from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Generic

from penstock import kernel
from penstock.core.shares import is_shared
from penstock.core.subscription_options import Marks, is_marked, routed
from penstock.core.subscriptions import Subscriber, SubscriptionTrie
from penstock.core.topic_tree import TopicTree
from penstock.limits import ROUTES_CACHED_MAX

EVICTED_SHARE = 512  # fraction of the cache that is evicted at once: 128 of 65,536

# a filter that visits more cached topics than this empties the cache instead
WIDE_FILTER_VISITS = 2_048

VISITS_MAX = 32_768
"""Visits of cached topics, for changed filters, after which the cache is emptied too: otherwise a
client with thousands of filters, each just narrow enough, would stall everyone for seconds when it
leaves. All of them together then cost about thirty milliseconds.
"""

UNKNOWN_POLICY = -1  # not determined yet

# patterns that begin with these do not match topics that begin with ``$``
PATTERN_WILDCARDS = (b"*", b"?", b"[")


class Route(Generic[Subscriber]):
    """Where messages of one topic go. The caller sets ``policy``; it lasts as long as the route."""

    __slots__ = ("marked", "policy", "targets", "topic")

    def __init__(
        self,
        topic: bytes,
        targets: tuple[tuple[Subscriber, int], ...],
        marked: dict[Subscriber, Marks] | None = None,
    ) -> None:
        self.topic = topic
        self.targets = targets  # each subscriber once, with the maximum QoS
        # those whose subscriptions are more than a QoS; None: nobody's are
        self.marked = marked
        self.policy = UNKNOWN_POLICY  # flags of ``access.admission``


if not TYPE_CHECKING and kernel.is_compiled:
    from penstock.kernel.routes import Route


class _Pattern(Generic[Subscriber]):
    """A pattern's rule, and who subscribes to it."""

    __slots__ = ("cost", "matches", "sees_dollar", "subscribers")

    def __init__(self, pattern: bytes, matches: Callable[[bytes], bool], cost: int) -> None:
        self.matches = matches
        self.cost = cost
        self.sees_dollar = not pattern.startswith(PATTERN_WILDCARDS)
        self.subscribers: dict[Subscriber, int] = {}


class Routes(Generic[Subscriber]):
    """Subscriptions and the routes that follow from them.

    ``misses`` counts routes that had to be worked out, ``invalidations`` cached ones that were
    forgotten because a subscription changed (evictions are not among them).
    """

    __slots__ = (
        "_cached_max",
        "_last_targets",
        "_marked_count",
        "_patterns",
        "_subscriptions",
        "_topics",
        "_visits_before",
        "cached",
        "invalidations",
        "may_receive",
        "misses",
        "on_share",
        "pattern_cost",
    )

    def __init__(self, cached_max: int = ROUTES_CACHED_MAX) -> None:
        self._cached_max = cached_max
        self._subscriptions: SubscriptionTrie[Subscriber] = SubscriptionTrie()
        self._patterns: dict[bytes, _Pattern[Subscriber]] = {}
        self._topics: TopicTree[Route[Subscriber]] = TopicTree()
        self._last_targets: tuple[tuple[Subscriber, int], ...] = ()
        self._marked_count = 0  # subscriptions that are more than a QoS
        self._visits_before = 0  # visits until the cache was last emptied
        # whether a subscriber may get messages of a topic; None: all may
        self.may_receive: Callable[[Subscriber, bytes], bool] | None = None
        # called with a shared subscription that somebody begins or ceases to have
        self.on_share: Callable[[bytes], None] | None = None
        self.cached = self._topics.values  # read only; always the same dict
        self.misses = 0
        self.invalidations = 0
        self.pattern_cost = 0  # of matching a topic with all patterns, in the caller's unit

    @property
    def subscription_count(self) -> int:
        return len(self._subscriptions)

    @property
    def pattern_count(self) -> int:
        return len(self._patterns)

    def audience(self, topic_filter: bytes) -> Collection[Subscriber]:
        return self._subscriptions.audience(topic_filter)

    def filters(self) -> Collection[bytes]:
        return self._subscriptions.filters()

    def resolve(self, topic: bytes) -> Route[Subscriber]:
        """Find the route of a topic that is not in ``cached``, and cache it."""
        self.misses += 1
        marked: dict[Subscriber, Marks] | None = None
        if self._marked_count:
            targets, marked = self._match_marked(topic)
        else:
            targets = self._subscriptions.match(topic)
        is_plain = not topic.startswith(b"$")
        for pattern in self._patterns.values():
            if (is_plain or pattern.sees_dollar) and pattern.matches(topic):
                targets |= pattern.subscribers
        if self.may_receive is not None and targets:
            targets = {
                target: qos for target, qos in targets.items() if self.may_receive(target, topic)
            }
            if marked:
                marked = {target: one for target, one in marked.items() if target in targets}
        found = tuple(targets.items())
        if found == self._last_targets:
            found = self._last_targets  # most topics of a fleet go to the same: one object for all
        self._last_targets = found
        route = Route(topic, found, marked or None)
        if self._cached_max:
            if len(self.cached) >= self._cached_max:
                self._evict()
            self._topics.set(topic, route)
        return route

    def _match_marked(self, topic: bytes) -> tuple[dict[Subscriber, int], dict[Subscriber, Marks]]:
        """As ``SubscriptionTrie.match``, and the marks of those who have some."""
        targets: dict[Subscriber, int] = {}
        found: dict[Subscriber, list[int]] = {}
        audiences = list(self._subscriptions.audiences(topic))
        for audience in audiences:
            for subscriber, options in audience.items():
                if options > 2:
                    found[subscriber] = []
                elif targets.get(subscriber, -1) < options:
                    targets[subscriber] = options
        for audience in audiences if found else ():
            for subscriber in found.keys() & audience.keys():
                found[subscriber].append(audience[subscriber])
        marked = {subscriber: Marks.of(options) for subscriber, options in found.items()}
        targets |= {subscriber: marks.qos for subscriber, marks in marked.items()}
        return targets, marked

    def subscribe(self, topic_filter: bytes, subscriber: Subscriber, options: int) -> bool:
        """Add a subscription, or replace its options [MQTT-3.8.4-3]; return whether it is new."""
        options = routed(options)
        before = self._subscriptions.qos(topic_filter, subscriber)
        if before != options:
            self._subscriptions.subscribe(topic_filter, subscriber, options)
            self._marked_count += is_marked(options) - (before is not None and is_marked(before))
            self._invalidate(topic_filter)
        if before is None and self.on_share is not None and is_shared(topic_filter):
            self.on_share(topic_filter)
        return before is None

    def unsubscribe(self, topic_filter: bytes, subscriber: Subscriber) -> bool:
        """Remove a subscription; return whether it existed."""
        before = self._subscriptions.qos(topic_filter, subscriber)
        if before is None:
            return False
        self._subscriptions.unsubscribe(topic_filter, subscriber)
        self._marked_count -= is_marked(before)
        self._invalidate(topic_filter)
        if self.on_share is not None and is_shared(topic_filter):
            self.on_share(topic_filter)
        return True

    def remove_subscriber(self, subscriber: Subscriber, filters: Iterable[bytes]) -> int:
        """Remove a subscriber from all these filters; return from how many it was removed."""
        return sum(self.unsubscribe(topic_filter, subscriber) for topic_filter in filters)

    def subscribe_pattern(
        self,
        pattern: bytes,
        matches: Callable[[bytes], bool],
        subscriber: Subscriber,
        cost: int = 1,
    ) -> None:
        """Subscribe to all topics that ``matches`` accepts, with QoS 0.

        The same pattern must always come with the same rule. A subscriber has one pattern and no
        filter, so there is no precedence between them.
        """
        entry = self._patterns.get(pattern)
        if entry is None:
            entry = self._patterns[pattern] = _Pattern(pattern, matches, cost)
            self.pattern_cost += cost
        entry.subscribers[subscriber] = 0
        self.forget_all()

    def unsubscribe_pattern(self, pattern: bytes, subscriber: Subscriber) -> None:
        entry = self._patterns[pattern]
        del entry.subscribers[subscriber]
        if not entry.subscribers:
            del self._patterns[pattern]
            self.pattern_cost -= entry.cost
        self.forget_all()

    def forget(self, topic_filter: bytes) -> None:
        """Judge the routes that a filter matches again."""
        self._invalidate(topic_filter)

    def _invalidate(self, topic_filter: bytes) -> None:
        affected = self._topics.names_matching(topic_filter, WIDE_FILTER_VISITS)
        if affected is None or self._topics.visits - self._visits_before > VISITS_MAX:
            self.forget_all()
            return
        self.invalidations += len(affected)
        for topic in affected:
            self._topics.pop(topic)

    def forget_all(self) -> None:
        self.invalidations += len(self.cached)
        self._topics.clear()
        self._visits_before = self._topics.visits

    def _evict(self) -> None:
        for topic in list(islice(self.cached, max(1, self._cached_max // EVICTED_SHARE))):
            self._topics.pop(topic)
