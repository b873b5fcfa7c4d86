"""Trie, tree and routes against a matcher that is obviously correct.

The oracle compares by regular expression and knows nothing of trees. Alphabets are small on purpose:
names must collide, nest, and share levels, or the interesting branches are never taken.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.routes import Routes
from penstock.core.subscriptions import SubscriptionTrie
from penstock.core.topic_tree import TopicTree
from penstock.model.topic import filter_fault, topic_fault

LEVELS = ["", "a", "b", "$", "$a"]


def oracle(topic_filter: bytes, topic: bytes) -> bool:
    """Translate the filter to a regular expression; the standard's section 4.7, literally."""
    if topic[:1] == b"$" and topic_filter[:1] in {b"+", b"#"}:
        return False
    pattern = re.escape(topic_filter).replace(rb"\+", b"[^/]*")
    pattern = b".*" if pattern == rb"\#" else re.sub(rb"/\\#$", b"(/.*)?", pattern)
    return re.fullmatch(pattern, topic, re.DOTALL) is not None


def joined(levels):
    return "/".join(levels).encode()


def named(levels):
    """A lone empty level is the empty name, which is no name."""
    return joined(levels) or b"a"


topics = st.lists(st.sampled_from(LEVELS), min_size=1, max_size=5).map(named)
deep_topics = st.lists(st.sampled_from(["a", "b"]), min_size=30, max_size=60).map(joined)
filters = st.builds(
    lambda levels, rest: named([*levels, *rest]),
    st.lists(st.sampled_from([*LEVELS, "+", "+"]), max_size=4),
    st.sampled_from([[], ["#"], ["a"], ["+"]]),
)
subscribers = st.sampled_from(["ann", "bob", "cyd"])
qualities = st.integers(min_value=0, max_value=2)


def expected_targets(subscriptions, topic):
    granted = {}
    for (topic_filter, subscriber), qos in subscriptions.items():
        if oracle(topic_filter, topic):
            granted[subscriber] = max(qos, granted.get(subscriber, 0))
    return granted


@given(topics, filters)
def test_the_strategies_give_well_formed_names(topic, topic_filter):
    assert topic_fault(topic) == filter_fault(topic_filter) == ""


@given(st.dictionaries(st.tuples(filters, subscribers), qualities), topics)
def test_trie_matches_as_the_oracle_says(subscriptions, topic):
    trie = SubscriptionTrie()
    for (topic_filter, subscriber), qos in subscriptions.items():
        trie.subscribe(topic_filter, subscriber, qos)
    assert len(trie) == len(subscriptions)
    assert trie.match(topic) == expected_targets(subscriptions, topic)


@given(st.sets(topics | deep_topics), filters)
def test_topic_tree_matches_as_the_oracle_says(names, topic_filter):
    tree = TopicTree()
    for name in names:
        tree.set(name, name.decode())
    found = tree.match(topic_filter)
    assert sorted(found) == sorted((n, n.decode()) for n in names if oracle(topic_filter, n))


@given(deep_topics, st.data())
def test_deep_filters_match_as_the_oracle_says(topic, data):
    """A filter made from a topic by blanking levels, cutting the end and changing one level."""
    levels = topic.decode().split("/")
    blanked = data.draw(st.sets(st.integers(0, len(levels) - 1)))
    cut = data.draw(st.integers(1, len(levels)))
    candidate = ["+" if n in blanked else level for n, level in enumerate(levels)][:cut]
    topic_filter = joined([*candidate, *data.draw(st.sampled_from([[], ["#"], ["a"]]))])
    trie = SubscriptionTrie()
    trie.subscribe(topic_filter, "us", 1)
    trie.subscribe(topic, "twin", 1)
    trie.subscribe(joined([*levels[: cut // 2], "+", "#"]), "neighbour", 1)
    assert ("us" in trie.match(topic)) == oracle(topic_filter, topic)


class RouteChurn(RuleBasedStateMachine):
    """Subscribe, unsubscribe and resolve in any order: routes are always what the oracle says."""

    cached_max = 1_000

    def __init__(self):
        super().__init__()
        self.routes = Routes(cached_max=self.cached_max)
        self.subscriptions = {}

    @rule(topic_filter=filters, subscriber=subscribers, qos=qualities)
    def subscribe(self, topic_filter, subscriber, qos):
        is_new = (topic_filter, subscriber) not in self.subscriptions
        assert self.routes.subscribe(topic_filter, subscriber, qos) == is_new
        self.subscriptions[topic_filter, subscriber] = qos

    @rule(topic_filter=filters, subscriber=subscribers)
    def unsubscribe_at_random(self, topic_filter, subscriber):
        was_there = self.subscriptions.pop((topic_filter, subscriber), None) is not None
        assert self.routes.unsubscribe(topic_filter, subscriber) == was_there

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def unsubscribe_one_that_is_there(self, data):
        topic_filter, subscriber = data.draw(st.sampled_from(sorted(self.subscriptions)))
        del self.subscriptions[topic_filter, subscriber]
        assert self.routes.unsubscribe(topic_filter, subscriber)

    @rule(subscriber=subscribers)
    def remove_subscriber(self, subscriber):
        gone = [key for key in self.subscriptions if key[1] == subscriber]
        for key in gone:
            del self.subscriptions[key]
        filters_gone = [topic_filter for topic_filter, _ in gone]
        assert self.routes.remove_subscriber(subscriber, filters_gone) == len(gone)

    @rule(some=st.lists(topics, max_size=8))
    def publish(self, some):
        for topic in some:
            route = self.routes.cached.get(topic) or self.routes.resolve(topic)
            assert route.topic == topic
            assert dict(route.targets) == expected_targets(self.subscriptions, topic)

    @invariant()
    def every_cached_route_is_true_at_this_moment(self):
        for topic, route in self.routes.cached.items():
            assert dict(route.targets) == expected_targets(self.subscriptions, topic)

    @invariant()
    def bounds_and_counts_hold(self):
        assert len(self.routes.cached) <= self.cached_max
        assert self.routes.subscription_count == len(self.subscriptions)

    @invariant()
    def cached_names_are_all_in_the_tree(self):
        tree = self.routes._topics._names
        in_tree = tree.topics_matching(b"#") + names_under(tree._reserved)
        assert sorted(in_tree) == sorted(self.routes.cached)

    def teardown(self):
        for topic_filter, subscriber in self.subscriptions:
            self.routes.unsubscribe(topic_filter, subscriber)
        wildcards = self.routes._subscriptions._wildcards
        assert wildcards._ordinary == wildcards._reserved == {}


def names_under(node):
    """All leaves below a node; checks on the way that no node was left with fewer than two."""
    names = []
    for child in node.values():
        below = names_under(child) if isinstance(child, dict) else [child]
        assert len(below) >= 2 or not isinstance(child, dict)
        names += below
    return names


class RouteChurnInATightCache(RouteChurn):
    cached_max = 3


class RouteChurnWithoutCache(RouteChurn):
    cached_max = 0


TestRouteChurn = RouteChurn.TestCase
TestRouteChurnInATightCache = RouteChurnInATightCache.TestCase
TestRouteChurnWithoutCache = RouteChurnWithoutCache.TestCase


@given(st.lists(st.tuples(st.booleans(), topics | deep_topics)))
def test_every_node_of_the_tree_holds_two_names_after_any_history(history):
    tree = TopicTree()
    model = {}
    for wanted, topic in history:
        if wanted:
            tree.set(topic, topic)
            model[topic] = topic
        else:
            assert tree.pop(topic) == model.pop(topic, None)
        found = names_under(tree._names._ordinary) + names_under(tree._names._reserved)
        assert sorted(found) == sorted(model)


@pytest.mark.parametrize(
    ("topic_filter", "topic", "matches"),
    [(b"a/#", b"a", True), (b"#", b"$a", False), (b"+/a", b"/a", True), (b"a/+", b"a", False)],
)
def test_the_oracle_itself_knows_the_rules(topic_filter, topic, matches):
    assert oracle(topic_filter, topic) is matches
