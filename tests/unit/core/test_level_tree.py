"""The shape of the tree: shared levels only, nothing left behind, no recursion."""

import pytest

from penstock.core.level_tree import END, LevelTree


def tree_of(*names):
    tree = LevelTree()
    for name in names:
        tree.add(name)
    return tree


def test_a_lone_name_takes_one_slot_however_deep():
    assert tree_of(b"a/b/c/d")._ordinary == {b"a": b"a/b/c/d"}


def test_shared_levels_become_nodes_and_a_name_that_ends_inside_gets_a_key_of_its_own():
    tree = tree_of(b"a/b/c", b"a/b/d", b"a", b"x/y/z")
    assert tree._ordinary == {
        b"a": {b"b": {b"c": b"a/b/c", b"d": b"a/b/d"}, END: b"a"},
        b"x": b"x/y/z",
    }


def test_a_name_and_its_beginning_fork_where_the_shorter_ends():
    assert tree_of(b"a/b/c", b"a/b")._ordinary == {b"a": {b"b": {b"c": b"a/b/c", END: b"a/b"}}}


def test_names_with_a_dollar_sign_in_front_have_a_root_of_their_own():
    """[MQTT-4.7.2-1]"""
    tree = tree_of(b"$SYS/a", b"a/$b")
    assert tree._reserved == {b"$SYS": b"$SYS/a"}
    assert tree._ordinary == {b"a": b"a/$b"}


def test_a_sole_survivor_moves_up_as_far_as_it_is_alone():
    tree = tree_of(b"a/b/c/d", b"a/b/c/e", b"x")
    tree.remove(b"a/b/c/d")
    assert tree._ordinary == {b"a": b"a/b/c/e", b"x": b"x"}


def test_two_survivors_keep_the_nodes_they_share():
    tree = tree_of(b"a/b/c", b"a/b/d", b"a/x")
    tree.remove(b"a/x")
    assert tree._ordinary == {b"a": {b"b": {b"c": b"a/b/c", b"d": b"a/b/d"}}}


@pytest.mark.parametrize("names", [[b"a", b"a/b", b"a/b/c", b"a//c", b"/", b"$x", b"$x/y"]])
def test_removing_everything_leaves_nothing(names):
    for order in (names, names[::-1]):
        tree = tree_of(*names)
        for name in order:
            tree.remove(name)
        assert tree._ordinary == tree._reserved == {}


def test_clear_leaves_nothing():
    tree = tree_of(b"a/b", b"a/c", b"$SYS/a")
    tree.clear()
    assert tree.topics_matching(b"#") == tree.topics_matching(b"$SYS/#") == []


DEEP = b"/".join([b"x"] * 20_000)


def test_twenty_thousand_levels_of_filter_do_not_recurse():
    """Validation refuses such filters; the tree must stand even without it (CVE-2019-11779)."""
    plus = b"/".join([b"+"] * 20_000)
    filters = [plus, plus + b"/#", DEEP + b"/+", DEEP + b"/#"]
    tree = tree_of(*filters)
    assert sorted(tree.filters_matching(DEEP)) == sorted([plus, plus + b"/#", DEEP + b"/#"])
    for topic_filter in filters:
        tree.remove(topic_filter)
    assert tree._ordinary == {}


def test_twenty_thousand_levels_of_topic_do_not_recurse():
    topics = [DEEP, DEEP + b"/a", DEEP + b"/b"]
    tree = tree_of(*topics)
    assert sorted(tree.topics_matching(b"x/#")) == topics
    assert sorted(tree.topics_matching(DEEP + b"/+")) == topics[1:]
    assert tree.topics_matching(b"/".join([b"+"] * 20_000)) == [DEEP]


def test_a_walk_visits_only_what_the_filter_can_reach():
    """The cost of a match must not grow with names elsewhere."""
    visited = []

    class Watched(dict):
        def get(self, key, default=None):
            visited.append(key)
            return super().get(key, default)

    tree = tree_of(b"a/x", b"a/y", *(b"other%d/x" % number for number in range(100)))
    tree._ordinary = Watched(tree._ordinary)
    assert tree.topics_matching(b"a/x") == [b"a/x"]
    assert tree.filters_matching(b"a/y") == [b"a/y"]
    assert visited == [b"a", b"a", b"+", b"#"]
