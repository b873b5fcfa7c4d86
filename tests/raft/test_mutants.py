"""Faults planted into the core are noticed."""

import pytest

from tests.raft.mutants import BY_NAME, FAULTS, in_own_process
from tests.raft.planting import Malformed, Patch, source_of


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_a_planted_fault_is_noticed(name):
    done = in_own_process(name)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_nothing_is_noticed_where_no_fault_was_planted():
    done = in_own_process("--intact")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_fault_has_a_name_of_its_own_and_something_that_notices_it():
    assert len(BY_NAME) == len(FAULTS)
    assert all(fault.noticed_by for fault in FAULTS)


@pytest.mark.parametrize("old", ["words that are not there", "self"])
def test_a_fault_that_does_not_fit_the_source_is_refused(old):
    patch = Patch("penstock.raft.progress", old, "")
    with pytest.raises(Malformed, match="not once"):
        patch.made(source_of(patch.module))
