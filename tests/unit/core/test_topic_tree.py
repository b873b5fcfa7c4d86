"""Topic names to values, asked by name and by filter."""

import pytest

from penstock.core.topic_tree import TopicTree


@pytest.fixture
def tree():
    tree = TopicTree()
    for value, topic in enumerate([b"a", b"a/b", b"a/b/c", b"x/y", b"$SYS/up"]):
        tree.set(topic, value)
    return tree


def test_a_value_is_found_by_its_name(tree):
    assert tree.get(b"a/b") == 1
    assert tree.get(b"a/c") is None


def test_setting_again_replaces_the_value_and_adds_no_name(tree):
    tree.set(b"a/b", 7)
    assert len(tree) == 5
    assert tree.match(b"a/+") == [(b"a/b", 7)]


def test_a_popped_name_is_found_no_more(tree):
    assert tree.pop(b"a/b") == 1
    assert tree.pop(b"a/b") is None
    assert tree.get(b"a/b") is None
    assert sorted(tree.match(b"a/#")) == [(b"a", 0), (b"a/b/c", 2)]


def test_a_filter_without_wildcards_finds_one_name_or_none(tree):
    assert tree.match(b"x/y") == [(b"x/y", 3)]
    assert tree.match(b"x") == []


def test_a_value_may_be_none(tree):
    tree.set(b"n", None)
    assert tree.match(b"n") == tree.match(b"n/#") == [(b"n", None)]


def test_clear_keeps_the_dict_that_others_hold(tree):
    values = tree.values
    tree.clear()
    assert len(tree) == 0
    assert tree.match(b"#") == []
    tree.set(b"z", 1)
    assert values == {b"z": 1}


def test_nothing_is_left_behind_when_all_names_have_gone(tree):
    for topic in list(tree.values):
        tree.pop(topic)
    assert tree._names._ordinary == tree._names._reserved == {}
