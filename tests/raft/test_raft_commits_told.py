"""A membership change known to only some nodes prevents a leader, unless it is replicated."""

import pytest

from penstock.raft.conf_entries import change_entry, decode_change
from penstock.raft.types import (
    ConfChange,
    ConfChangeKind,
    ConfState,
    EntryKind,
    HardState,
    MessageKind,
    RaftEntry,
    RaftMessage,
    Role,
    SnapshotMeta,
)
from tests.raft.driving import Driven, follower
from tests.raft.scenario.storage import MemoryLog

REMOVE_2 = ConfChange(((ConfChangeKind.REMOVE_NODE, 2),))
PROMOTE_2 = ConfChange(((ConfChangeKind.ADD_NODE, 2),))


def member(node_id, conf, change, last_terms, *, commit, **settings):
    """A participant that was started on a log: an entry, the change, and entries of these terms."""
    log = MemoryLog(SnapshotMeta(0, 0, conf))
    entry = change_entry(change)
    made = [RaftEntry(1, 1), RaftEntry(1, 2, entry.data, entry.kind)]
    made += [RaftEntry(term, 3 + at) for at, term in enumerate(last_terms)]
    log.write(HardState(2, 0, commit), made, None)
    return Driven(
        node_id=node_id, log=log, pre_vote=True, roll=lambda sides: node_id % sides, **settings
    )


def turn(members):
    """Carry out what all want, once; deliver what they say."""
    said = []
    for node in members.values():
        while node.raw.has_ready():
            ready = node.raw.ready()
            node.write(ready)
            for entry in ready.committed:
                if entry.kind is not EntryKind.NORMAL:
                    node.raw.apply_conf_change(decode_change(entry))
                node.raw.applied(entry.index)
            said += [*ready.messages, *ready.after_persist]
    for message in said:
        if message.sender != message.to:
            members[message.to].raw.step(message)


def leader_of(members, ticks=200):
    """Let time pass; return the leader at the end, if any."""
    for _ in range(ticks):
        for node in members.values():
            node.raw.tick()
        for _ in range(4):
            turn(members)
    return [node_id for node_id, node in members.items() if node.raw.role is Role.LEADER]


@pytest.mark.parametrize("tells", [False, True])
def test_the_last_voter_leads_though_the_one_removed_has_a_longer_log(tells):
    conf = ConfState((1, 2))
    last = member(1, conf, REMOVE_2, [], commit=1, tells_commits=tells)
    removed = member(2, conf, REMOVE_2, [2], commit=2, tells_commits=tells)
    assert leader_of({1: last, 2: removed}) == ([1] if tells else [])


@pytest.mark.parametrize("tells", [False, True])
def test_one_that_was_promoted_and_does_not_know_it_leads_with_the_longest_log(tells):
    conf = ConfState((1,), (2,))
    before = member(1, conf, PROMOTE_2, [], commit=2, tells_commits=tells)
    promoted = member(2, conf, PROMOTE_2, [2], commit=1, tells_commits=tells)
    assert leader_of({1: before, 2: promoted}) == ([2] if tells else [])


def test_what_somebody_knows_to_be_committed_counts_only_where_the_log_has_it():
    driven = follower(1, 2, 3)
    driven.raw.step(
        RaftMessage(
            MessageKind.APPEND, 1, 2, 1, entries=(RaftEntry(1, 1), RaftEntry(1, 2), RaftEntry(1, 3))
        )
    )
    driven.settle()

    def told(index, log_term):
        driven.raw.step(RaftMessage(MessageKind.COMMITTED, 1, 9, index=index, log_term=log_term))
        return driven.raw.commit

    assert [told(2, 2), told(9, 1), told(2, 0), told(0, 0), told(0, 1)] == [0] * 5
    assert [told(2, 1), told(1, 1), told(3, 1)] == [2, 2, 3]
