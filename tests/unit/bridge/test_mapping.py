"""Which topics a bridge copies, and what they are called on the other side."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.bridge.mapping import Direction, Mapping, overlap

levels = st.sampled_from(["a", "b", ""])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join)
filters = st.builds(
    lambda parts, end: "/".join([*parts, *end]),
    st.lists(st.sampled_from(["a", "b", "", "+"]), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
) | st.just("#")


def matches(topic, one):
    """Written from the standard's words, level by level."""
    if one == "#":
        return True
    if not topic and not one:
        return True
    names, wanted = topic.split("/"), one.split("/")
    for number, level in enumerate(wanted):
        if level == "#":
            return True
        if number >= len(names) or level not in {"+", names[number]}:
            return False
    return len(names) == len(wanted)


@given(topics, filters)
def test_a_topic_overlaps_with_the_filters_that_it_matches(topic, one):
    above = one.removesuffix("/#") if one.endswith("/#") else None
    assert overlap(topic, one) == (
        matches(topic, one) or (above and matches(topic, above)) or False
    )


@given(filters, filters, topics)
def test_filters_that_a_topic_matches_both_overlap(one, other, topic):
    if matches(topic, one) and matches(topic, other):
        assert overlap(one, other)
    assert overlap(one, other) == overlap(other, one)


def test_filters_without_a_common_topic_do_not_overlap():
    assert not overlap("a/+", "b/+")
    assert not overlap("a/b", "a/b/+")
    assert not overlap("a/+/c", "a/b/d/#")
    assert overlap("a/+/c", "a/b/#")
    assert overlap("a/#", "a")


def test_a_topic_is_renamed_by_the_prefixes_and_back():
    mapping = Mapping(("plant/#",), ("cmd/+",), "old/", "site/")
    assert mapping.subscriptions(Direction.IN) == ["site/plant/#"]
    assert mapping.renamed("site/plant/1", Direction.IN) == "old/plant/1"
    assert mapping.subscriptions(Direction.OUT) == ["old/cmd/+"]
    assert mapping.renamed("old/cmd/x", Direction.OUT) == "site/cmd/x"


def test_a_topic_of_an_earlier_configuration_is_not_mapped():
    mapping = Mapping(("plant/#",), (), "", "site/")
    assert mapping.renamed("site/other", Direction.IN) is None
    assert mapping.renamed("plant/1", Direction.IN) is None
    assert mapping.renamed("plant/1", Direction.OUT) is None


def test_filters_that_echo_are_found_whatever_the_prefixes():
    assert Mapping(("a/#",), ("a/+",), "x/", "y/").echoes() == ("a/#", "a/+")
    assert Mapping(("a/#",), ("b/#",)).echoes() is None
