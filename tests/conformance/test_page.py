"""The list of statements, the markers and the page agree, and nothing is left unproven."""

from collections import Counter

import pytest

from tests.conformance.page import (
    MQTT_3_1_1,
    MQTT_5,
    markdown,
    markdown_5,
    proofs,
    statements,
    verdict,
)
from tests.generate import PAGES

COUNTS_3_1_1 = {
    "1.5": 3, "2.2": 2, "2.3": 7, "3.1": 42, "3.2": 7, "3.3": 18, "3.6": 1, "3.8": 11, "3.9": 2,
    "3.10": 9, "3.12": 1, "3.14": 4, "4.1": 2, "4.3": 5, "4.4": 1, "4.5": 2, "4.6": 6, "4.7": 8,
    "4.8": 2, "6.0": 4, "7.0": 2, "7.1": 2,
}  # fmt: skip
"""Normative statements per section, counted in the standard itself."""

GROUPS_5 = {
    "1.5.4": 3, "1.5.5": 1, "1.5.7": 1, "2.1.3": 1, "2.2.1": 6, "2.2.2": 1, "3.1.0": 2,
    "3.1.2": 30, "3.1.3": 12, "3.1.4": 6, "3.2.0": 2, "3.2.2": 22, "3.3.1": 13, "3.3.2": 20,
    "3.3.4": 10, "3.4.2": 3, "3.5.2": 3, "3.6.1": 1, "3.6.2": 3, "3.7.2": 3, "3.8.1": 1,
    "3.8.3": 5, "3.8.4": 8, "3.9.2": 2, "3.9.3": 2, "3.10.1": 1, "3.10.3": 2, "3.10.4": 6,
    "3.11.2": 2, "3.11.3": 2, "3.12.4": 1, "3.14.0": 1, "3.14.1": 1, "3.14.2": 4, "3.14.4": 3,
    "3.15.1": 1, "3.15.2": 3, "4.1.0": 2, "4.2": 1, "4.3.1": 1, "4.3.2": 5, "4.3.3": 13,
    "4.4.0": 2, "4.5.0": 2, "4.6.0": 6, "4.7.0": 1, "4.7.1": 2, "4.7.2": 1, "4.7.3": 4,
    "4.8.2": 6, "4.9.0": 3, "4.12.0": 7, "4.12.1": 2, "4.13.1": 1, "4.13.2": 1, "6.0.0": 4,
}  # fmt: skip
"""The last number of each group of ids in the standard's body, which counts them through."""

both = pytest.mark.parametrize("standard", [MQTT_3_1_1, MQTT_5], ids=["3.1.1", "5.0"])


def test_the_list_has_every_statement_of_the_standard_once():
    ids = [statement.id for statement in statements()]
    assert len(set(ids)) == len(ids) == 141
    assert Counter(statement.section for statement in statements()) == COUNTS_3_1_1
    assert COUNTS_3_1_1.keys() == MQTT_3_1_1.titles.keys()


def test_the_list_for_version_5_has_all_251_statements_in_their_order():
    expected = [f"MQTT-{group}-{n}" for group, last in GROUPS_5.items() for n in range(1, last + 1)]
    expected.remove("MQTT-2.2.1-1")  # the one number that the standard skips
    assert len(expected) == 251
    assert [statement.id for statement in statements(MQTT_5)] == expected
    assert {statement.section for statement in statements(MQTT_5)} == MQTT_5.titles.keys()


@both
def test_every_statement_says_whom_it_binds(standard):
    assert {statement.binds for statement in statements(standard)} == {"server", "client", "both"}


@both
def test_every_id_in_a_marker_is_a_statement(standard):
    assert proofs(standard).keys() <= {statement.id for statement in statements(standard)}


@both
def test_every_statement_is_proven_or_says_why_it_cannot_be(standard):
    proven = proofs(standard)
    missing = [s.id for s in statements(standard) if verdict(s, proven) == "no"]
    assert not missing, f"no test carries {missing}; mark one that fails them ({standard.marker})"


@both
def test_no_statement_is_both_proven_and_excused(standard):
    excused = {statement.id for statement in statements(standard) if statement.not_applicable}
    assert not excused & proofs(standard).keys()


def test_the_pages_are_among_the_generated_ones():
    """``tests/test_generated.py`` compares them all with the disk; ``make docs`` writes them."""
    assert ("docs/reference/mqtt-3.1.1.md", markdown) in PAGES
    assert ("docs/reference/mqtt-5.md", markdown_5) in PAGES
