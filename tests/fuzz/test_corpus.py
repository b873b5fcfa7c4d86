"""No input of the corpus breaks a law, nor do a few hundred mutations of them."""

import random

import pytest

from tests.fuzz import corpus
from tests.fuzz.mutate import mutated
from tests.fuzz.targets import TARGETS

MUTATIONS = 150


@pytest.mark.parametrize("name", TARGETS)
def test_no_known_input_breaks_a_law(name):
    inputs = corpus.read(name)
    assert inputs, "a target begins with examples"
    for data in inputs:
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_mutation_of_known_inputs_breaks_a_law(name):
    chance, seeds = random.Random(name), corpus.read(name)
    for _ in range(MUTATIONS):
        data = mutated(chance, seeds)
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"broken by {data.hex()}") from error


def test_a_broken_law_is_noticed():
    """The laws can fail: a stream that means something else when it is cut."""
    from tests.fuzz.targets import same_however_cut

    with pytest.raises(AssertionError):
        same_however_cut([1], [1, 2])


def test_the_smallest_inputs_that_reach_all_lines_are_kept():
    assert corpus.minimised(TARGETS["first_bytes"], [b"GET /", b"GET /xx", b"\x10"]) == [
        b"\x10",
        b"GET /",
    ]
