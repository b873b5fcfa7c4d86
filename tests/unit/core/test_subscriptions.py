"""Subscriptions: who is there, with which QoS, and what is left when they are gone."""

import pytest

from penstock.core.subscriptions import SubscriptionTrie


@pytest.fixture
def trie():
    return SubscriptionTrie()


def test_first_subscription_is_new_and_the_second_is_not(trie):
    assert trie.subscribe(b"a/+", "us", 0) is True
    assert trie.subscribe(b"a/+", "us", 1) is False
    assert len(trie) == 1


def test_subscribing_again_replaces_the_qos_even_by_a_lower_one(trie):
    """[MQTT-3.8.4-3]"""
    trie.subscribe(b"a/b", "us", 2)
    trie.subscribe(b"a/b", "us", 0)
    assert trie.match(b"a/b") == {"us": 0}
    assert trie.qos(b"a/b", "us") == 0


def test_overlapping_filters_give_the_highest_qos_once(trie):
    """[MQTT-3.3.5-1]"""
    for topic_filter, qos in [(b"a/b", 0), (b"a/+", 2), (b"a/#", 1), (b"#", 0)]:
        trie.subscribe(topic_filter, "us", qos)
    assert trie.match(b"a/b") == {"us": 2}
    trie.unsubscribe(b"a/+", "us")
    assert trie.match(b"a/b") == {"us": 1}


def test_one_filter_serves_many_subscribers(trie):
    granted = {f"client{number}": number % 3 for number in range(10)}
    for subscriber, qos in granted.items():
        assert trie.subscribe(b"a/#", subscriber, qos)
    assert trie.match(b"a") == granted
    assert len(trie) == 10


def test_a_pair_may_be_a_subscriber(trie):
    """An audience of one is kept as a pair; that must not confuse it with its subscriber."""
    trie.subscribe(b"a", ("us", 1), 2)
    assert trie.match(b"a") == {("us", 1): 2}
    assert trie.qos(b"a", "us") is None


def test_qos_of_a_subscription_that_is_not_there_is_none(trie):
    trie.subscribe(b"a", "us", 1)
    assert trie.qos(b"a", "them") is None
    assert trie.qos(b"b", "us") is None


def test_unsubscribe_takes_the_very_filter_and_no_other(trie):
    """[MQTT-3.10.4-1]"""
    trie.subscribe(b"a/+", "us", 1)
    assert trie.unsubscribe(b"a/b", "us") is False
    assert trie.unsubscribe(b"a/#", "us") is False
    assert trie.unsubscribe(b"a/+", "them") is False
    assert trie.unsubscribe(b"a/+", "us") is True
    assert trie.unsubscribe(b"a/+", "us") is False
    assert len(trie) == 0


def test_unsubscribe_leaves_the_other_subscribers_of_a_filter(trie):
    for subscriber in "abc":
        trie.subscribe(b"x/+", subscriber, 1)
    assert trie.unsubscribe(b"x/+", "b")
    assert trie.match(b"x/y") == {"a": 1, "c": 1}
    assert trie.unsubscribe(b"x/+", "a")
    assert trie.match(b"x/y") == {"c": 1}


def test_what_match_returns_belongs_to_the_caller(trie):
    for subscriber in "ab":
        trie.subscribe(b"x", subscriber, 1)
    trie.match(b"x").clear()
    assert trie.match(b"x") == {"a": 1, "b": 1}


def test_nothing_is_left_behind_when_all_have_gone(trie):
    filters = [b"a/b/c", b"a/+/c", b"a/b/+", b"a/#", b"#", b"+/+/+/#", b"$SYS/#", b"a/b/+/d/e"]
    for topic_filter in filters:
        for subscriber in "xy":
            trie.subscribe(topic_filter, subscriber, 1)
    for topic_filter in filters:
        for subscriber in "xy":
            trie.unsubscribe(topic_filter, subscriber)
    assert len(trie) == 0
    assert trie._audiences == {}
    assert trie._wildcards._ordinary == trie._wildcards._reserved == {}
