"""Reads are confirmed by answers to heartbeats sent after the request."""

import pytest

from penstock.raft.quorum import JointConfig, MajorityConfig
from penstock.raft.read_only import PendingRead, ReadOnly

THREE = JointConfig(MajorityConfig({1, 2, 3}), MajorityConfig())
NOBODY = JointConfig(MajorityConfig(), MajorityConfig())


def asked(*contexts):
    reads = ReadOnly(8)
    for index, context in enumerate(contexts, 11):
        assert reads.add(0, context, index)
    return reads


def test_nothing_waits_and_heartbeats_carry_nothing():
    assert asked().heartbeat_context() == b""


def test_a_majority_confirms_all_reads_that_were_asked_before_the_heartbeat():
    reads = asked(b"a", b"b")
    number = reads.heartbeat_context()
    assert reads.add(2, b"later", 20)
    reads.acknowledge(1, number)
    assert reads.advance(THREE) == []
    reads.acknowledge(3, number)
    assert reads.advance(THREE) == [PendingRead(0, b"a", 11), PendingRead(0, b"b", 12)]
    assert len(reads) == 1


def test_an_answer_that_repeats_itself_counts_once():
    reads = asked(b"a")
    for _ in range(3):
        reads.acknowledge(2, reads.heartbeat_context())
    assert reads.advance(THREE) == []


def test_answers_of_those_who_do_not_vote_do_not_count():
    reads = asked(b"a")
    for stranger in (7, 8, 9):
        reads.acknowledge(stranger, reads.heartbeat_context())
    assert reads.advance(THREE) == []


def test_an_answer_to_an_earlier_read_of_the_same_name_does_not_confirm_a_later_one():
    reads = asked(b"same")
    early = reads.heartbeat_context()
    for node in (1, 2):
        reads.acknowledge(node, early)
    assert reads.advance(THREE) == [PendingRead(0, b"same", 11)]
    assert reads.add(0, b"same", 12)
    reads.acknowledge(1, reads.heartbeat_context())
    reads.acknowledge(3, early)
    assert reads.advance(THREE) == []


@pytest.mark.parametrize("context", [b"", b"x", b"\xff" * 8, (2).to_bytes(8, "big"), b"0" * 64])
def test_a_context_that_was_never_sent_confirms_nothing(context):
    reads = asked(b"a")
    for node in (1, 2, 3):
        reads.acknowledge(node, context)
    assert reads.advance(THREE) == []
    assert reads.add(0, b"b", 12)
    assert reads.advance(THREE) == []


def test_a_configuration_of_nobody_confirms_what_there_is():
    assert asked(b"a").advance(NOBODY) == [PendingRead(0, b"a", 11)]


def test_more_reads_than_allowed_are_refused():
    reads = ReadOnly(1)
    assert reads.add(0, b"a", 1)
    assert not reads.add(0, b"b", 1)
