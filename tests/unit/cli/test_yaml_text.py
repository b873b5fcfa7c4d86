"""Our YAML says to another parser what it was made from."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.ready_made.yaml_text import to_yaml

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        "no",
        "Yes",
        "1m",
        "a: b",
        "- a",
        "#a",
        "a\nb",
        "a\n\n  b\n",
        "\na",
        " a\nb",
        "'",
        '"',
        "{{ a }}",
    ]
)
documents = st.dictionaries(
    texts,
    st.recursive(
        texts | st.booleans() | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=10,
    ),
    min_size=1,
    max_size=3,
)


@given(documents)
def test_another_parser_reads_what_was_written(document):
    assert yaml.safe_load(to_yaml(document)) == document


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("always", "a: always\n"),
        ("no", 'a: "no"\n'),
        ('up{job="x"}', "a: 'up{job=\"x\"}'\n"),
        ("one\n  two\n", "a: |\n  one\n    two\n"),
        ([{"b": 1, "c": [True]}], "a:\n  - b: 1\n    c:\n      - true\n"),
    ],
)
def test_it_reads_like_written_by_hand(value, text):
    assert to_yaml({"a": value}) == text
