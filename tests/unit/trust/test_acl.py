"""Topic patterns of keys and rules, by table and against a slow model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.trust.acl import compile_acl, compile_patterns, patterns_fault

ALLOWED = [
    ("", b"anything/at/all"),
    ("   ", b"anything"),
    ("*", b"$SYS/uptime"),
    ("#", b"$SYS/uptime"),
    ("sensors/*", b"sensors/a"),
    ("sensors/*", b"sensors/a/b"),
    ("sensors/*", b"sensors/"),
    ("sensors/a*", b"sensors/ab"),
    ("s*", b"sensors"),
    ("sensors/t", b"sensors/t"),
    ("plant/+/temp", b"plant/7/temp"),
    ("plant/+/temp", b"plant//temp"),
    ("plant/#", b"plant"),  # [MQTT-4.7.1-2]
    ("plant/#", b"plant/a/b"),
    ("+/x", b"a/x"),
    ("+/#", b"a"),
    ("$SYS/#", b"$SYS/uptime"),  # [MQTT-4.7.2-1]
    ("a, b/* ,c/+", b"a"),
    ("a, b/* ,c/+", b"b/x"),
    ("a, b/* ,c/+", b"c/x"),
    ("a,#", b"whatever"),
    ("hafen/kräne", "hafen/kräne".encode()),
    ("a.c", b"a.c"),
    ("line\nbreak/+", b"line\nbreak/\n"),
]

REFUSED = [
    ("sensors/*", b"sensors"),
    ("sensors/*", b"Sensors/a"),
    ("sensors/t", b"sensors/t/"),
    ("sensors/t", b"sensors/T"),
    ("plant/+/temp", b"plant/7/8/temp"),
    ("plant/+/temp", b"plant/7/temp/x"),
    ("plant/+", b"plant"),
    ("plant/#", b"plants"),
    ("+/x", b"$SYS/x"),  # [MQTT-4.7.2-1]
    ("+/#", b"$SYS/x"),
    ("a, b/* ,c/+", b"b"),
    ("a, b/* ,c/+", b"a, b/* ,c/+"),
    (",", b"a"),
    ("a,", b"b"),
    ("a.c", b"abc"),
    ("a+", b"ab"),
    ("a/#/b", b"a/x/b"),
    ("a/+*", b"a/x/y"),
    ("sensors/t", b"sensors/t\n"),
]


@pytest.mark.parametrize(("topics", "topic"), ALLOWED)
def test_topic_is_allowed(topics, topic):
    assert compile_acl(topics)(topic) is True


@pytest.mark.parametrize(("topics", "topic"), REFUSED)
def test_topic_is_refused(topics, topic):
    assert compile_acl(topics)(topic) is False


def test_no_patterns_match_nothing_where_they_are_no_permission():
    matches = compile_patterns(())
    assert not matches(b"a")
    assert not matches(b"")


@pytest.mark.parametrize("topics", ["", " ", "*", "#", "a", "a/*", "a/+/b,c/#", "*,a", "a , b"])
def test_good_patterns_have_no_fault(topics):
    assert patterns_fault(topics) == ""


@pytest.mark.parametrize(
    ("topics", "fault"),
    [
        (",", "'': empty"),
        ("a,,b", "'': empty"),
        ("a,b+", "'b+': '+' must be a whole level"),
        ("a/#/b", "'a/#/b': '#' must be the whole last level"),
        ("a/+*", "'a/+*': '*' at the end does not go together with '+' or '#'"),
        ("a\0b", "'a\\x00b': contains U+0000"),
        ("x" * 1_025, f"'{'x' * 1_025}': longer than 1024 bytes"),
        ("x," * 2_049, "longer than 4096 bytes"),
    ],
)
def test_bad_patterns_are_named(topics, fault):
    assert patterns_fault(topics) == fault


# ── A slow model: one pattern after the other, level by level


def model_allows(topics: str, topic: str) -> bool:
    if not topics.strip():
        return True
    return any(model_matches(pattern.strip(), topic) for pattern in topics.split(","))


def model_matches(pattern: str, topic: str) -> bool:
    if pattern in {"*", "#"}:
        return True
    if pattern.endswith("*"):
        return topic.startswith(pattern[:-1])
    if topic.startswith("$") and pattern.startswith("+"):
        return False
    return model_levels(pattern.split("/"), topic.split("/"))


def model_levels(pattern: list[str], topic: list[str]) -> bool:
    if pattern == ["#"]:
        return True
    if not pattern or not topic:
        return pattern == topic
    return pattern[0] in {"+", topic[0]} and model_levels(pattern[1:], topic[1:])


levels = st.sampled_from(["a", "b", "$a", "", "ab", ".", "[", "\n", "é"])
topics_ = st.lists(levels, min_size=1, max_size=4).map("/".join)
filters = st.tuples(
    st.lists(levels | st.just("+"), min_size=1, max_size=3), st.sampled_from([[], ["#"]])
).map(lambda parts: "/".join(parts[0] + parts[1]))
patterns = (
    (topics_ | filters | topics_.map(lambda topic: topic + "*") | st.sampled_from(["*", "#"]))
    .map(str.strip)
    .filter(bool)
)


@given(st.lists(patterns, max_size=4).map(" ,".join), topics_)
def test_compiled_patterns_agree_with_the_model(topics, topic):
    assert compile_acl(topics)(topic.encode()) == model_allows(topics, topic)


@given(patterns, topics_)
def test_one_pattern_agrees_with_the_model(pattern, topic):
    """Short lists, so that a mismatch is not hidden by a neighbour that matches."""
    assert compile_acl(pattern)(topic.encode()) == model_matches(pattern, topic)


def test_hostile_topic_does_not_make_matching_slow():
    """Linear in the topic: were it to try all ways to part it, this would never end."""
    matches = compile_acl("+/+/+/+/+/+/+/+/+/+/x," * 20 + "a/*")
    assert not matches(b"/" * 60_000 + b"y")
    assert not matches(b"y" * 60_000)
