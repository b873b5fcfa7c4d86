"""Which filter matches which topic: one table, and every structure that answers the question.

The rules are those of section 4.7 of the standard. A cached and an uncached path must never differ,
nor may the two directions (filters by topic, topics by filter), so all of them run the same rows.
"""

import pytest

from penstock.core.routes import Routes
from penstock.core.subscriptions import SubscriptionTrie
from penstock.core.topic_tree import TopicTree

MATCHES = [
    # Plain filters: equal bytes, nothing else [MQTT-4.7.3-4].
    (b"port/berth/crane", b"port/berth/crane"),
    (b"a", b"a"),
    (b"/", b"/"),
    ("hafen/kräne".encode(), "hafen/kräne".encode()),
    # '#' stands for any number of levels, none included [MQTT-4.7.1-2].
    (b"#", b"a"),
    (b"#", b"a/b/c"),
    (b"#", b"/"),
    (b"port/#", b"port"),
    (b"port/#", b"port/"),
    (b"port/#", b"port/berth"),
    (b"port/#", b"port/berth/crane/load"),
    (b"/#", b"/"),
    (b"/#", b"/a"),
    # '+' stands for one level, which may be empty [MQTT-4.7.1-3].
    (b"+", b"a"),
    (b"port/+", b"port/berth"),
    (b"port/+", b"port/"),
    (b"port/+/load", b"port/berth/load"),
    (b"port/+/load", b"port//load"),
    (b"+/+", b"/harbour"),
    (b"/+", b"/harbour"),
    (b"+/+/+", b"//"),
    (b"+/", b"a/"),
    (b"+/berth/#", b"port/berth"),
    (b"+/berth/#", b"port/berth/crane"),
    (b"port/+/#", b"port/berth"),
    (b"port/+/#", b"port/"),
    # '$' topics are found by filters that spell the first level [MQTT-4.7.2-1].
    (b"$SYS/#", b"$SYS/uptime"),
    (b"$SYS/#", b"$SYS"),
    (b"$SYS/+", b"$SYS/uptime"),
    (b"$", b"$"),
    (b"$other/a", b"$other/a"),
    # Elsewhere '$' is a letter like any other.
    (b"+/$a", b"x/$a"),
    (b"#", b"x/$a"),
    (b"a/#", b"a/$SYS"),
]

MISMATCHES = [
    (b"port/berth", b"port/Berth"),
    (b"port/berth", b"port/berth/"),
    (b"port/berth", b"/port/berth"),
    (b"port", b"port/berth"),
    (b"port/berth", b"port"),
    (b"/", b"a"),
    ("\u00c5".encode(), "A\u030a".encode()),  # the same to the eye, not by byte [MQTT-4.7.3-4]
    (b"port/#", b"ports"),
    (b"port/#", b"/port"),
    (b"/#", b"a"),
    (b"+", b"a/b"),
    (b"+", b"/harbour"),
    (b"+", b"a/"),
    (b"port/+", b"port"),
    (b"port/+", b"port/berth/crane"),
    (b"port/+/#", b"port"),
    (b"port/+/load", b"port/berth/crane/load"),
    (b"port/+/load", b"port/berth/Load"),
    (b"+/+/+", b"a/b"),
    (b"+/", b"a"),
    (b"#", b"$SYS/uptime"),  # [MQTT-4.7.2-1], down to the end
    (b"#", b"$"),
    (b"+", b"$SYS"),
    (b"+/uptime", b"$SYS/uptime"),
    (b"+/#", b"$SYS/uptime"),
    (b"$SYS/#", b"$SYSTEM"),
    (b"$SYS/+", b"$SYS"),
    (b"$SYS/+", b"$other/uptime"),
]

BYSTANDERS = [b"port/berth/x", b"port/quay", b"other", b"$SYS/a", b"a/b/c/d", b"/x/y", b"x"]
"""Other names in the same structure: they make paths fork where the row alone would be a leaf."""


def by_trie(topic_filter, topic, names):
    trie = SubscriptionTrie()
    for name in names:
        trie.subscribe(name, "bystander", 0)
    for suffix in (b"/x/+", b"/+/y/#"):
        trie.subscribe(topic_filter.removesuffix(b"/#").removesuffix(b"#") + suffix, "neighbour", 0)
    trie.subscribe(topic_filter, "us", 1)
    return "us" in trie.match(topic)


def by_routes(cached_max):
    def matches(topic_filter, topic, names):
        routes = Routes(cached_max=cached_max)
        for name in [*names, topic]:
            routes.resolve(name)
        routes.subscribe(topic_filter, "us", 1)
        route = routes.cached.get(topic) or routes.resolve(topic)
        return ("us", 1) in route.targets

    return matches


def by_topic_tree(topic_filter, topic, names):
    tree = TopicTree()
    for name in [*names, topic]:
        tree.set(name, name.upper())
    return (topic, topic.upper()) in tree.match(topic_filter)


ways = pytest.mark.parametrize(
    "matches",
    [by_trie, by_routes(cached_max=100), by_routes(cached_max=0), by_topic_tree],
    ids=["trie", "routes_cached", "routes_uncached", "topic_tree"],
)
company = pytest.mark.parametrize("names", [[], BYSTANDERS], ids=["alone", "in_company"])


@company
@ways
@pytest.mark.parametrize(("topic_filter", "topic"), MATCHES)
def test_filter_matches(matches, names, topic_filter, topic):
    assert matches(topic_filter, topic, names)


@company
@ways
@pytest.mark.parametrize(("topic_filter", "topic"), MISMATCHES)
def test_filter_does_not_match(matches, names, topic_filter, topic):
    assert not matches(topic_filter, topic, names)
