"""The source keeps the house rules that no linter knows."""

import pytest

from penstock.core.commands import Closed, from_event, to_event
from penstock.obs.reasons import DisconnectReason, DropReason, PeerReason
from tests.tidy import checks
from tests.tidy.files import SOURCE, TESTS, complaints, python_files, read

TEXT_SUFFIXES = {".py", ".json", ".jsonl", ".toml", ".txt", ".md"}

MAY_SLEEP = {
    "chaos/": "clients at their own pace, faults at moments of chance",
    "cluster/test_membership_kills.py": "crashes at moments of chance",
    "cluster/test_random_crashes.py": "crashes at moments of chance",
    "spark/kill_campaign.py": "kills at moments of chance",
    "spark/kill_driver.py": "dies a moment after a commit has begun",
}
"""Files or folders in which a sleep is not a wait for an event, and why."""


def test_functions_are_short():
    assert not complaints(python_files(SOURCE, TESTS), checks.long_functions)


def test_files_are_short():
    assert not complaints(python_files(SOURCE, TESTS), checks.long_file)


def test_tests_wait_for_events_and_not_for_time():
    files = [file for file in python_files(TESTS) if not _may_sleep(file)]
    assert not complaints(files, checks.sleeps)


def _may_sleep(file):
    name = file.relative_to(TESTS).as_posix()
    return "node_modules" in name or any(name.startswith(allowed) for allowed in MAY_SLEEP)


def test_each_event_of_the_journal_has_a_tag_of_its_own():
    """Two branches may each take the next free tag; then no journal could be read."""
    closed = Closed(b"c", 1, 2)
    assert from_event(to_event(closed)) == closed


def test_every_module_says_what_it_is_for():
    assert not complaints(python_files(SOURCE), checks.missing_theory)


def test_annotations_mean_the_same_in_every_python():
    assert not complaints(python_files(SOURCE), checks.shadowed_annotations)


def test_every_clause_that_the_source_cites_is_tested():
    """The checkers' own tests do not count; they cite clauses that do not exist."""
    tests = [
        read(file)
        for file in TESTS.rglob("*")
        if file.suffix in TEXT_SUFFIXES and "tidy" not in file.parts
    ]
    untested = checks.untested_clauses(map(read, python_files(SOURCE)), tests)
    assert not untested, "clauses without a test:\n" + "\n".join(untested)


@pytest.mark.parametrize("enum", [DisconnectReason, DropReason, PeerReason])
def test_every_reason_occurs(enum):
    """A documented reason that never occurs would mislead operators."""
    files = [file for file in python_files(SOURCE) if file != SOURCE / "obs" / "reasons.py"]
    members = [member.name for member in enum]
    assert not checks.unused_members(enum.__name__, members, map(read, files))
