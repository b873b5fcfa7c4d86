"""What a participant must not believe, and when it must rather end."""

import pytest

from penstock.raft.config import RaftConfig
from penstock.raft.errors import LogDamaged
from penstock.raft.types import (
    ConfState,
    HardState,
    MessageKind,
    RaftEntry,
    RaftMessage,
    Role,
    SnapshotMeta,
)
from tests.raft.driving import Driven, append, follower, leader
from tests.raft.scenario.storage import MemoryLog

LOCAL = (
    MessageKind.HUP,
    MessageKind.BEAT,
    MessageKind.UNREACHABLE,
    MessageKind.SNAPSHOT_STATUS,
    MessageKind.CHECK_QUORUM,
    MessageKind.FORGET_LEADER,
)
WITHOUT_TERM = (MessageKind.PROPOSE, MessageKind.READ_INDEX, MessageKind.COMMITTED)


@pytest.mark.parametrize("kind", LOCAL, ids=lambda kind: kind.name)
def test_what_a_node_says_to_itself_is_not_taken_from_others(kind):
    driven = follower(1, 2, 3)
    assert not driven.raw.step(RaftMessage(kind, 1, 2, 1))
    assert not driven.raw.step(RaftMessage(kind, 1, 2))
    assert not driven.raw.has_ready()
    assert driven.raw.lead == 2


@pytest.mark.parametrize(
    "kind",
    [kind for kind in MessageKind if kind not in (*LOCAL, *WITHOUT_TERM)],
    ids=lambda kind: kind.name,
)
def test_a_message_without_a_term_is_not_taken_from_others(kind):
    driven = leader(1, 2, 3)
    assert not driven.raw.step(RaftMessage(kind, 1, 2, index=5, entries=(RaftEntry(1, 1),)))
    assert not driven.raw.has_ready()


def test_answers_of_those_who_are_no_members_are_not_taken():
    driven = leader(1, 2, 3)
    driven.raw.propose(b"x")
    driven.settle()
    assert not driven.answer(MessageKind.APPEND_RESPONSE, 9, driven.raw.last_index)
    assert driven.raw.commit == driven.raw.last_index - 1


def test_an_empty_proposal_that_was_sent_on_is_not_taken():
    driven = leader(1, 2, 3)
    driven.raw.step(RaftMessage(MessageKind.PROPOSE, 1, 2))
    assert not driven.raw.has_ready()


@pytest.mark.parametrize(
    "entries",
    [
        (RaftEntry(1, 2),),
        (RaftEntry(1, 1), RaftEntry(1, 3)),
        (RaftEntry(1, 0), RaftEntry(1, 1)),
    ],
)
def test_entries_that_do_not_follow_are_not_taken(entries):
    driven = follower(1, 2, 3)
    driven.raw.step(RaftMessage(MessageKind.APPEND, 1, 2, 1, 0, 0, entries))
    assert driven.raw.last_index == 0
    assert not driven.raw.has_ready()


def test_a_leader_is_not_replaced_within_its_term():
    driven = leader(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, 1, sender=2))
    assert driven.raw.role is Role.LEADER
    assert driven.raw.last_index == 1


def test_a_heartbeat_that_commits_more_than_this_log_has_ends_the_node():
    driven = follower(1, 2, 3)
    with pytest.raises(LogDamaged, match="ends at 0"):
        driven.raw.step(RaftMessage(MessageKind.HEARTBEAT, 1, 2, 1, commit=5))


def test_an_append_that_replaces_what_is_committed_ends_the_node():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, commit=2))
    driven.settle()
    with pytest.raises(LogDamaged, match="committed"):
        driven.raw.node.log.append([RaftEntry(2, 2)])


def test_a_follower_that_has_more_says_how_far_it_is_committed():
    driven = follower(1, 2, 3)
    driven.raw.step(append(1, 0, 1, 1, commit=2))
    driven.settle()
    driven.raw.step(append(1, 0, 1, 1))
    (answer,) = driven.raw.ready().after_persist
    assert (answer.index, answer.reject) == (2, False)


def test_a_log_shorter_than_what_was_committed_is_not_started_with():
    log = MemoryLog(SnapshotMeta(0, 0, ConfState(voters=(1,))))
    log.write(HardState(1, 1, 3), [RaftEntry(1, 1), RaftEntry(1, 2)], None)
    with pytest.raises(LogDamaged, match="3 was committed"):
        Driven(log=log)


def test_a_state_ahead_of_what_was_committed_is_not_started_with():
    log = MemoryLog(SnapshotMeta(0, 0, ConfState(voters=(1,))))
    log.write(HardState(1, 1, 1), [RaftEntry(1, 1), RaftEntry(1, 2)], None)
    with pytest.raises(LogDamaged, match="2 was applied"):
        Driven(log=log, applied=2)


def test_what_was_applied_is_not_handed_out_again():
    log = MemoryLog(SnapshotMeta(0, 0, ConfState(voters=(1,))))
    log.write(HardState(1, 1, 2), [RaftEntry(1, 1), RaftEntry(1, 2)], None)
    driven = Driven(log=log, applied=1)
    assert driven.raw.ready().committed == (RaftEntry(1, 2),)


def test_a_snapshot_without_this_node_is_not_taken():
    driven = follower(1, 2, 3)
    other = SnapshotMeta(5, 1, ConfState(voters=(2, 3)))
    driven.raw.step(RaftMessage(MessageKind.SNAPSHOT, 1, 2, 1, snapshot=other))
    driven.raw.step(RaftMessage(MessageKind.SNAPSHOT, 1, 2, 1))
    assert driven.raw.last_index == 0
    assert driven.raw.ready().snapshot is None


@pytest.mark.parametrize(
    "fault",
    [
        {"node_id": 0},
        {"heartbeat_ticks": 0},
        {"heartbeat_ticks": 10},
        {"inflight_messages_max": 0},
        {"pending_reads_max": 0},
        {"read_only_lease": True, "check_quorum": False},
    ],
)
def test_settings_that_cannot_work_are_refused(fault):
    with pytest.raises(ValueError, match=next(iter(fault)) if "node_id" not in fault else "id"):
        RaftConfig(**{"node_id": 1, "roll": lambda _sides: 0, **fault})
