"""Participants behave as etcd's do, to the letter: its published scripts, and ours.

Ours are in ``scenarios``: what the published ones leave out. Deviations are listed in
``docs/internals/raft.md``.
"""

from pathlib import Path

import pytest

from tests.raft.datadriven import trace_files
from tests.raft.scenario.runner import replay

OURS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", trace_files("testdata"))
def test_a_published_script_prints_what_it_prints_with_etcd(path):
    replay(path)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in OURS])
def test_a_script_of_ours_prints_what_it_says(path):
    replay(path)
