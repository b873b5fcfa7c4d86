"""MQTT filters as regular expressions: the same names as the broker would choose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.level_tree import LevelTree
from penstock.errors import ConfigError
from penstock.model.topic import filter_fault
from penstock.spark.filters import filters_of, names_matching

plain = st.sampled_from(["a", "b", "", "$x", "a.b", "(", "ü", "\n", "a\n"])
names = st.lists(plain, min_size=1, max_size=4).map("/".join).filter(bool)
wild = st.lists(plain | st.just("+"), min_size=1, max_size=4)
filters = st.builds(lambda path, end: "/".join([*path, *end]), wild, st.sampled_from([[], ["#"]]))


@given(st.sets(names), st.lists(filters.filter(lambda each: not filter_fault(each.encode()))))
def test_the_names_are_those_that_the_broker_would_choose(
    known: set[str], chosen: list[str]
) -> None:
    tree = LevelTree()
    for each in set(chosen):
        tree.add(each.encode())
    matching = {name for name in known if tree.filters_matching(name.encode())}
    assert set(names_matching(known, chosen)) == (matching if chosen else set())


def test_no_filters_match_no_name_but_an_empty_one() -> None:
    assert names_matching(["a"], []) == []


def test_filters_are_separated_by_commas() -> None:
    assert filters_of(" a/#, b ,") == ("a/#", "b")
    with pytest.raises(ConfigError, match="'a/#/b'"):
        filters_of("a/#/b")
