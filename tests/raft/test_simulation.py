"""Clusters in simulated time, with faults: what must hold does, and the simulation would notice."""

import subprocess
import sys
from collections import Counter
from functools import cache
from random import Random
from types import SimpleNamespace

import pytest

from penstock.raft import types
from penstock.raft.types import (
    ConfState,
    HardState,
    MessageKind,
    RaftEntry,
    RaftMessage,
    SnapshotMeta,
)
from tests.raft.simulation import Verdict, run
from tests.raft.simulation.disk import Batch, Disk, Log, State
from tests.raft.simulation.oracle import Oracle, Violation

SEEDS = range(300)
STEPS = 1500
INTERESTING = (
    "compactions",
    "conf changes applied",
    "crash_all",
    "crash_leader",
    "cut_leader",
    "disks lost",
    "elections",
    "entries overwritten",
    "messages doubled",
    "messages lost",
    "partition",
    "proposals acknowledged",
    "reads",
    "removed nodes shut down",
    "replay",
    "restarts",
    "snapshots installed",
    "stall",
    "sync error",
    "sync full",
    "torn batches",
    "transfers",
    "unsynced batches kept",
    "unsynced batches lost",
)


@cache
def verdicts() -> tuple[Verdict, ...]:
    return tuple(run(seed, STEPS) for seed in SEEDS)


# ── The core in bad company


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_that_must_hold_is_violated_and_all_settles_when_faults_end():
    failed = [f"{v.command}\n{v.fault}" for v in verdicts() if not v.is_ok]
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_everything_interesting_has_happened_in_these_worlds_again_and_again():
    seen = sum((verdict.seen for verdict in verdicts()), Counter())
    assert not [what for what in INTERESTING if seen[what] < 10], seen


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_members_change_down_to_one_and_up_again_if_commits_are_told():
    bold = [run(seed, STEPS, is_bold=True) for seed in (68, *range(60))]
    failed = [f"{v.command}\n{v.fault}" for v in bold if not v.is_ok]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_seed_is_a_whole_history(seed):
    def history():
        told = []
        assert run(seed, 300, tell=told.append).is_ok
        return told

    assert history() == history()


def test_different_seeds_are_different_histories():
    assert run(1, 300).seen != run(2, 300).seen


# ── A core that is broken is found, and can be looked at


HASTY = """
import msgspec

from penstock.raft import raw_node

class RawNode(raw_node.RawNode):
    def ready(self):
        ready = super().ready()
        return Hasty(ready)

class Hasty:
    '''Gives out at once what has to wait for the disk.'''

    def __init__(self, ready):
        self._ready = ready
        self.messages = (*ready.messages, *ready.after_persist)
        self.after_persist = ()

    def __getattr__(self, name):
        return getattr(self._ready, name)
"""


@pytest.fixture
def hasty(tmp_path):
    """A copy of the core by name, which says that entries are durable before they are."""
    package = tmp_path / "hasty_raft"
    package.mkdir()
    (package / "__init__.py").touch()
    for module in ("types", "config", "errors", "conf_entries"):
        (package / f"{module}.py").write_text(f"from penstock.raft.{module} import *\n")
    (package / "raw_node.py").write_text(HASTY)
    return tmp_path


def simulate(*options, path):
    return subprocess.run(
        [sys.executable, "-m", "tests.raft.simulation", *options],
        env={"PYTHONPATH": ":".join([str(path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def test_a_broken_core_fails_with_its_last_steps_and_the_command_to_repeat_it(hasty):
    answer = simulate("--seed", "2", "--package", "hasty_raft", path=hasty)
    assert answer.returncode == 1, answer.stderr
    assert "before" in answer.stdout.splitlines()[-3]
    again = "python -m tests.raft.simulation --seed 2 --steps 1000 --package hasty_raft"
    assert again in answer.stdout
    assert " starts HardState(" in answer.stdout


def test_a_campaign_tells_which_seeds_failed(hasty):
    answer = simulate("--seed", "1", "--seeds", "3", "--package", "hasty_raft", path=hasty)
    assert answer.returncode == 1, answer.stderr
    assert "3 seeds of 1000 steps: 3 failed [1, 2, 3]" in answer.stdout


# ── The disk


def ready(index, term=1):
    return SimpleNamespace(
        hard_state=HardState(term, 0, 1),
        snapshot=None,
        entries=(RaftEntry(term, index, b"x"),),
        committed=(),
    )


def disk_with(count, chance):
    disk = Disk(types, chance, SnapshotMeta(1, 1, ConfState((1,))))
    for index in range(2, 2 + count):
        disk.write(Batch(ready(index), disk.state, ()))
    return disk


def test_what_was_synced_survives_every_crash_and_what_remains_has_no_gap():
    for seed in range(100):
        disk = disk_with(4, Random(seed))
        disk.sync()
        disk.crash()
        assert [entry.index for entry in disk.log.entries] == list(range(2, disk.log.last + 1))
        assert disk.log.last >= 2
        assert not disk.faults()


def test_unsynced_batches_vanish_or_remain_and_torn_ones_are_not_taken_for_whole():
    seen = sum((disk_with(3, Random(seed)).crash() for seed in range(100)), Counter())
    assert min(seen[f"unsynced batches {fate}"] for fate in ("kept", "lost")) > 10
    assert seen["torn batches"] > 10


# ── The oracle


BOOTSTRAP = SnapshotMeta(1, 1, ConfState((1, 2, 3)))


@pytest.fixture
def oracle():
    disks = {node: Disk(types, Random(0), BOOTSTRAP) for node in (1, 2, 3)}
    return Oracle(disks, BOOTSTRAP, Counter())


def log_of(*terms):
    return Log(1, 1, [RaftEntry(term, index, b"") for index, term in enumerate(terms, 2)])


def test_two_leaders_of_a_term_are_found(oracle):
    oracle.leads(1, 2)
    oracle.leads(1, 2)
    oracle.leads(2, 3)
    with pytest.raises(Violation, match="both lead"):
        oracle.leads(2, 2)


def test_a_leader_without_what_an_earlier_term_committed_is_found(oracle):
    oracle.commits(1, log_of(2, 2), 1, HardState(2, 1, 3))
    oracle.has_everything(2, 2, log_of())
    oracle.has_everything(2, 3, log_of(2, 2))
    with pytest.raises(Violation, match="without the committed entry 3"):
        oracle.has_everything(3, 4, log_of(2, 3))


def test_logs_that_part_and_meet_again_are_found(oracle):
    oracle.appended(1, log_of(2), 1, (RaftEntry(3, 3, b"a"),))
    oracle.appended(2, log_of(2), 1, (RaftEntry(3, 3, b"a"),))
    with pytest.raises(Violation, match="place 3 of term 3"):
        oracle.appended(3, log_of(1), 1, (RaftEntry(3, 3, b"a"),))
    with pytest.raises(Violation, match="place 3 of term 3"):
        oracle.appended(3, log_of(2), 1, (RaftEntry(3, 3, b"b"),))


def test_a_gap_and_an_overwritten_commit_are_found(oracle):
    with pytest.raises(Violation, match="appends 4 to a log"):
        oracle.appended(1, log_of(2), 1, (RaftEntry(3, 4, b""),))
    with pytest.raises(Violation, match="overwrites 2"):
        oracle.appended(1, log_of(2), 2, (RaftEntry(3, 2, b""),))


def test_a_committed_entry_that_changes_is_found(oracle):
    oracle.commits(1, log_of(2, 2), 1, HardState(2, 1, 3))
    oracle.commits(2, log_of(2, 3), 1, HardState(3, 1, 2))
    with pytest.raises(Violation, match=r"has .* committed"):
        oracle.commits(2, log_of(2, 3), 2, HardState(3, 1, 3))


@pytest.mark.parametrize(
    "new", [HardState(4, 0, 9), HardState(5, 1, 8), HardState(5, 2, 9), HardState(5, 0, 9)]
)
def test_a_promise_taken_back_is_found(oracle, new):
    old = HardState(5, 1, 9)
    oracle.hardened(1, old, HardState(5, 1, 10))
    oracle.hardened(1, old, HardState(6, 2, 9))
    with pytest.raises(Violation):
        oracle.hardened(1, old, new)


def test_votes_and_acknowledgements_that_are_not_durable_are_found(oracle):
    vote = RaftMessage(MessageKind.VOTE_RESPONSE, to=2, sender=1, term=5)
    taken = RaftMessage(MessageKind.APPEND_RESPONSE, to=2, sender=1, term=5, index=9)
    oracle.leaves(vote, HardState(5, 2), 0)
    oracle.leaves(taken, HardState(5), 9)
    for hard in (HardState(4, 2), HardState(5, 0), HardState(5, 3)):
        with pytest.raises(Violation, match="vote leaves"):
            oracle.leaves(vote, hard, 0)
    with pytest.raises(Violation, match="before they are durable"):
        oracle.leaves(taken, HardState(5), 8)


def test_a_second_vote_in_a_term_is_found(oracle):
    oracle.leaves(
        RaftMessage(MessageKind.VOTE_RESPONSE, to=2, sender=1, term=5), HardState(5, 2), 0
    )
    with pytest.raises(Violation, match="votes for 2 and 3"):
        oracle.leaves(
            RaftMessage(MessageKind.VOTE_RESPONSE, to=3, sender=1, term=5), HardState(6), 0
        )


def test_counting_copies_of_an_older_term_or_too_few_is_found(oracle):
    disks = oracle._disks
    disks[1].log, disks[2].log = log_of(2, 3), log_of(2, 3)
    oracle.counted(1, 3, 3, BOOTSTRAP.conf_state)
    with pytest.raises(Violation, match="commits 2 in term 3"):
        oracle.counted(1, 3, 2, BOOTSTRAP.conf_state)
    disks[2].log = log_of(2)
    with pytest.raises(Violation, match="commits 3 in term 3"):
        oracle.counted(1, 3, 3, BOOTSTRAP.conf_state)


def test_a_state_that_others_did_not_come_to_is_found(oracle):
    log = log_of(2)
    oracle.commits(1, log, 1, HardState(2, 1, 2))
    disk = Disk(types, Random(0), BOOTSTRAP)
    state = State(2, 7, BOOTSTRAP.conf_state)
    with pytest.raises(Violation, match="not made durable"):
        oracle.applied(1, state, log.entries[0], disk)
    disk.log = log
    oracle.applied(1, state, log.entries[0], disk)
    with pytest.raises(Violation, match="came to"):
        oracle.applied(2, State(2, 8, BOOTSTRAP.conf_state), log.entries[0], disk)
    with pytest.raises(Violation, match="nobody has applied"):
        oracle.installed(3, SnapshotMeta(2, 2), State(2, 8, BOOTSTRAP.conf_state))


def test_a_read_that_is_older_than_what_was_acknowledged_is_found(oracle):
    oracle.commits(1, log_of(2, 2), 1, HardState(2, 1, 3))
    oracle.reads(1, 3, 3)
    for index, floor in ((2, 3), (4, 3)):
        with pytest.raises(Violation, match="read"):
            oracle.reads(1, index, floor)


def test_two_changes_under_way_and_two_voters_at_once_are_found(oracle):
    change = types.EntryKind.CONF_CHANGE
    log = Log(1, 1, [RaftEntry(2, index, b"", change) for index in (2, 3)])
    oracle.one_change_at_a_time(1, log, 2, 2)
    with pytest.raises(Violation, match="under way at 2, 3"):
        oracle.one_change_at_a_time(1, log, 1, 2)
    with pytest.raises(Violation, match="at once"):
        oracle.configured(1, ConfState((1, 2, 3)), ConfState((1,)), ConfState((1,)))
