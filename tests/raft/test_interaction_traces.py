"""Participants behave as etcd's do, to the letter: its published scripts, and ours.

Ours are in ``scenarios``: what the published ones leave out. Deviations are listed in
``docs/internals/raft.md``.
"""

from pathlib import Path

import pytest

from tests.raft.datadriven import trace_files
from tests.raft.scenario import random_scripts
from tests.raft.scenario.runner import replay

OURS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", trace_files("testdata"))
def test_a_published_script_prints_what_it_prints_with_etcd(path):
    replay(path)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in OURS])
def test_a_script_of_ours_prints_what_it_says(path):
    replay(path)


def test_the_first_line_that_differs_is_told_with_its_place(tmp_path):
    script = tmp_path / "wrong.txt"
    script.write_text("log-level info\n----\nok\n\nadd-nodes 1 voters=(1) index=2\n----\nok\n")
    with pytest.raises(
        AssertionError, match=r"(?s)wrong.txt:5: add-nodes.*- ok.*\+ INFO 1 switched"
    ):
        replay(script)


def test_random_scripts_print_what_etcd_printed_for_them():
    """If a change is intended: ``docs/internals/raft.md`` describes how to confirm them again."""
    known = random_scripts.confirmed()
    others = [
        seed
        for seed, confirmed in known.items()
        if random_scripts.digest(random_scripts.Author(seed).write()) != confirmed
    ]
    assert len(known) >= 300
    assert not others
