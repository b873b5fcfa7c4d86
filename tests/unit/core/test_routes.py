"""The route cache: right under churn, bounded, and precise about what it forgets."""

import pytest

from penstock.core.routes import UNKNOWN_POLICY, VISITS_MAX, WIDE_FILTER_VISITS, Routes
from penstock.core.topic_tree import TopicTree


def warmed(*topics, cached_max=1_000):
    routes = Routes(cached_max=cached_max)
    for topic in topics:
        routes.resolve(topic)
    return routes


def test_a_route_says_where_the_messages_of_a_topic_go():
    routes = Routes()
    routes.subscribe(b"a/+", "us", 1)
    routes.subscribe(b"a/b", "them", 0)
    route = routes.resolve(b"a/b")
    assert route.topic == b"a/b"
    assert dict(route.targets) == {"us": 1, "them": 0}
    assert route.policy == UNKNOWN_POLICY


def test_a_resolved_route_is_cached_with_its_policy():
    routes = Routes()
    route = routes.resolve(b"a/b")
    route.policy = 3
    assert routes.cached[b"a/b"] is route
    assert routes.cached[b"a/b"].policy == 3


def test_a_topic_without_subscribers_is_cached_too():
    routes = warmed(b"a")
    assert routes.cached[b"a"].targets == ()


def test_misses_are_counted():
    routes = warmed(b"a", b"b")
    assert routes.misses == 2


@pytest.mark.parametrize(
    ("topic_filter", "forgotten"),
    [
        (b"a/b", {b"a/b"}),
        (b"a/+", {b"a/b", b"a/c"}),
        (b"a/#", {b"a", b"a/b", b"a/c", b"a/b/d"}),
        (b"+/b/#", {b"a/b", b"a/b/d", b"x/b"}),
        (b"#", {b"a", b"a/b", b"a/c", b"a/b/d", b"x/b"}),
        (b"$SYS/#", {b"$SYS/up"}),
        (b"nobody/#", set()),
    ],
)
def test_a_change_forgets_exactly_the_routes_that_the_filter_matches(topic_filter, forgotten):
    topics = {b"a", b"a/b", b"a/c", b"a/b/d", b"x/b", b"$SYS/up"}
    routes = warmed(*topics)
    routes.subscribe(topic_filter, "us", 1)
    assert topics - routes.cached.keys() == forgotten
    assert routes.invalidations == len(forgotten)
    for topic in forgotten:
        routes.resolve(topic)
    routes.unsubscribe(topic_filter, "us")
    assert topics - routes.cached.keys() == forgotten
    assert routes.invalidations == 2 * len(forgotten)


def test_a_filter_as_wide_as_the_cache_forgets_it_all_and_the_dict_stays_the_same():
    routes = warmed(b"a", b"a/b")
    cached = routes.cached
    routes.subscribe(b"a/#", "us", 1)
    assert cached == {}
    assert routes.invalidations == 2
    routes.resolve(b"a")
    assert list(cached) == [b"a"]


def test_a_narrow_change_does_not_touch_the_rest_of_the_cache(monkeypatch):
    """Its cost follows the routes affected, not the routes cached."""
    monkeypatch.delattr(TopicTree, "clear")
    routes = warmed(b"a/1", b"a/2", b"b/1", b"b/2")
    routes.subscribe(b"a/#", "us", 1)
    assert list(routes.cached) == [b"b/1", b"b/2"]


def test_subscribing_again_with_the_same_qos_forgets_nothing():
    routes = Routes()
    assert routes.subscribe(b"a/#", "us", 1) is True
    routes.resolve(b"a")
    assert routes.subscribe(b"a/#", "us", 1) is False
    assert b"a" in routes.cached
    assert routes.subscribe(b"a/#", "us", 2) is False
    assert b"a" not in routes.cached
    assert routes.resolve(b"a").targets == (("us", 2),)


def test_unsubscribing_what_is_not_there_forgets_nothing():
    routes = warmed(b"a")
    assert routes.unsubscribe(b"#", "us") is False
    assert b"a" in routes.cached


def test_a_subscriber_is_removed_from_all_its_filters_at_once():
    routes = Routes()
    for topic_filter in (b"a/+", b"b", b"#"):
        routes.subscribe(topic_filter, "us", 1)
    routes.subscribe(b"b", "them", 1)
    routes.resolve(b"b")
    assert routes.remove_subscriber("us", [b"a/+", b"b", b"#", b"never"]) == 3
    assert routes.subscription_count == 1
    assert routes.resolve(b"b").targets == (("them", 1),)


def test_the_oldest_route_makes_room_when_the_cache_is_full():
    routes = warmed(b"a", b"b", b"c", cached_max=3)
    routes.resolve(b"d")
    assert list(routes.cached) == [b"b", b"c", b"d"]
    assert routes.invalidations == 0


def test_a_large_cache_evicts_a_small_lot_and_never_outgrows_its_bound():
    routes = warmed(*(b"t/%d" % number for number in range(2_048)), cached_max=2_048)
    assert len(routes.cached) == 2_048
    routes.resolve(b"one more")
    assert len(routes.cached) == 2_048 - 4 + 1
    assert next(iter(routes.cached)) == b"t/4"


def test_evicted_names_are_not_found_by_later_invalidations():
    routes = warmed(b"a/1", b"a/2", b"b", cached_max=2)
    routes.subscribe(b"a/+", "us", 0)
    assert routes.invalidations == 1
    assert list(routes.cached) == [b"b"]


def test_without_a_cache_every_route_is_worked_out_anew():
    routes = Routes(cached_max=0)
    routes.subscribe(b"a", "us", 1)
    assert routes.resolve(b"a").targets == (("us", 1),)
    assert routes.cached == {}
    assert routes.unsubscribe(b"a", "us")
    assert routes.resolve(b"a").targets == ()
    assert routes.misses == 2


# ── patterns ──────────────────────────────────────────────────────────────────────────────────


def has_an_e(topic: bytes) -> bool:
    return b"e" in topic


def test_a_pattern_is_asked_once_per_topic_and_its_subscribers_are_among_the_targets():
    asked = []
    routes = Routes()
    routes.subscribe(b"tea", "us", 1)
    routes.subscribe_pattern(b"*e*", lambda topic: not asked.append(topic), "them")
    assert routes.resolve(b"tea").targets == (("us", 1), ("them", 0))
    assert routes.cached[b"tea"].targets == (("us", 1), ("them", 0))
    assert asked == [b"tea"]


def test_who_subscribes_to_the_same_pattern_shares_the_question():
    asked = []
    routes = Routes()
    for who in ("us", "them"):
        routes.subscribe_pattern(b"x*", lambda topic: not asked.append(topic), who)
    assert routes.pattern_count == 1
    assert routes.resolve(b"x").targets == (("us", 0), ("them", 0))
    assert asked == [b"x"]


def test_a_pattern_that_comes_or_goes_empties_the_cache():
    routes = warmed(b"tea", b"milk")
    routes.subscribe_pattern(b"*e*", has_an_e, "us")
    assert not routes.cached
    assert routes.resolve(b"tea").targets == (("us", 0),)
    routes.unsubscribe_pattern(b"*e*", "us")
    assert not routes.cached
    assert routes.resolve(b"tea").targets == ()
    assert routes.pattern_count == 0
    assert routes.invalidations == 3


def test_a_pattern_stays_while_somebody_subscribes_to_it():
    routes = Routes()
    routes.subscribe_pattern(b"*e*", has_an_e, "us")
    routes.subscribe_pattern(b"*e*", has_an_e, "them")
    routes.unsubscribe_pattern(b"*e*", "us")
    assert routes.resolve(b"tea").targets == (("them", 0),)


@pytest.mark.parametrize("pattern", [b"*", b"?SYS/x", b"[$]SYS/x"])
def test_a_pattern_that_begins_with_a_wildcard_sees_no_dollar_topics(pattern):
    routes = Routes()
    routes.subscribe_pattern(pattern, lambda _topic: True, "us")
    assert routes.resolve(b"$SYS/x").targets == ()
    assert routes.resolve(b"a").targets == (("us", 0),)


@pytest.mark.parametrize("pattern", [b"$SYS/*", b"\\$SYS/x"])
def test_a_pattern_that_begins_otherwise_sees_them(pattern):
    routes = Routes()
    routes.subscribe_pattern(pattern, lambda _topic: True, "us")
    assert routes.resolve(b"$SYS/x").targets == (("us", 0),)


def test_filters_and_their_audiences_can_be_looked_at():
    routes = Routes()
    routes.subscribe(b"a", "us", 1)
    routes.subscribe(b"a", "them", 0)
    routes.subscribe(b"b/#", "us", 0)
    assert set(routes.filters()) == {b"a", b"b/#"}
    assert set(routes.audience(b"a")) == {"us", "them"}
    assert set(routes.audience(b"b/#")) == {"us"}
    assert not routes.audience(b"b/c")


def test_many_filters_that_are_nearly_too_wide_cost_little_together():
    topics = [b"a/x%d/y" % number for number in range(2_000)]
    routes = warmed(*topics, b"other", cached_max=10_000)
    filters = [b"a/+/n%d" % number for number in range(1_000)]
    for topic_filter in filters:
        routes.subscribe(topic_filter, "us", 0)
    assert routes.cached == {}
    assert routes._topics.visits < VISITS_MAX + WIDE_FILTER_VISITS
    for topic in topics:
        routes.resolve(topic)
    routes.remove_subscriber("us", filters)
    assert routes._topics.visits < 2 * (VISITS_MAX + WIDE_FILTER_VISITS)


def test_topics_with_the_same_subscribers_share_their_targets():
    routes: Routes[str] = Routes()
    routes.subscribe(b"plant/#", "a", 1)
    found = [routes.resolve(b"plant/%d" % number).targets for number in range(3)]
    assert found == [(("a", 1),)] * 3
    assert found[0] is found[1] is found[2]
    routes.subscribe(b"plant/1", "b", 0)
    assert dict(routes.resolve(b"plant/1").targets) == {"a": 1, "b": 0}
    assert routes.resolve(b"plant/2").targets == (("a", 1),)
