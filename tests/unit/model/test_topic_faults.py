"""What is well-formed as a topic name and as a filter."""

import pytest

from penstock.limits import TOPIC_BYTES_MAX, TOPIC_LEVELS_MAX
from penstock.model.topic import filter_fault, has_wildcard, topic_fault

checks = pytest.mark.parametrize("fault", [topic_fault, filter_fault])


@checks
@pytest.mark.parametrize("name", [b"a", b"/", b"//", b" ", b"a b/c", b"$SYS/x", "\u2603".encode()])
def test_ordinary_names_have_no_fault(fault, name):
    """Spaces, empty levels and a leading '$' are all allowed (section 4.7.3)."""
    assert fault(name) == ""


@checks
def test_the_empty_name_is_refused(fault):
    """[MQTT-4.7.3-1]"""
    assert fault(b"") == "empty"


@checks
def test_the_null_character_is_refused(fault):
    """[MQTT-4.7.3-2]"""
    assert "U+0000" in fault(b"a/\0")


@checks
def test_the_longest_name_passes_and_one_byte_more_does_not(fault):
    assert fault(b"a" * TOPIC_BYTES_MAX) == ""
    assert "1024 bytes" in fault(b"a" * (TOPIC_BYTES_MAX + 1))
    assert fault(b"aaaa", bytes_max=3)


@checks
def test_the_deepest_name_passes_and_one_level_more_does_not(fault):
    assert fault(b"/" * (TOPIC_LEVELS_MAX - 1)) == ""
    assert "200 levels" in fault(b"/" * TOPIC_LEVELS_MAX)
    assert fault(b"a/b/c", levels_max=2)


@pytest.mark.parametrize("name", [b"#", b"+", b"a/+/b", b"a/#", b"a+", b"a#b"])
def test_a_topic_name_may_hold_no_wildcard_character(name):
    """[MQTT-3.3.2-2]"""
    assert "wildcard" in topic_fault(name)


@pytest.mark.parametrize("name", [b"#", b"a/#", b"/#", b"+", b"+/+", b"a/+/b", b"+/a/#", b"+/#"])
def test_filters_with_wildcards_as_whole_levels_have_no_fault(name):
    assert filter_fault(name) == ""
    assert has_wildcard(name)


@pytest.mark.parametrize("name", [b"a#", b"#a", b"#/a", b"a/#/b", b"#/#", b"a/b#", b"+#", b"#/"])
def test_number_sign_must_be_the_whole_last_level(name):
    """[MQTT-4.7.1-2]"""
    assert "'#'" in filter_fault(name)


@pytest.mark.parametrize("name", [b"a+", b"+a", b"a/b+/c", b"++", b"a+/#"])
def test_plus_sign_must_be_a_whole_level(name):
    """[MQTT-4.7.1-3]"""
    assert "'+'" in filter_fault(name)


def test_plain_filters_have_no_wildcard():
    assert not has_wildcard(b"a/b")
