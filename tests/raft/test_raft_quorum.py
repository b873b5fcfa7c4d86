"""Majorities against their definition, by brute force."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.raft.quorum import JointConfig, MajorityConfig, VoteResult
from penstock.raft.types import NO_LIMIT

NODES = st.integers(1, 7)
HALVES = st.frozensets(NODES, max_size=5).map(MajorityConfig)
ACKED = st.dictionaries(NODES, st.integers(0, 9))
VOTES = st.dictionaries(NODES, st.booleans())


def is_majority(some, config):
    """By definition: more than half of them; of none, always."""
    return not config or 2 * len(config & some) > len(config)


def agreed(config, index, acked):
    """Whether both majorities have this index."""
    having = {node for node, known in acked.items() if known >= index}
    return all(is_majority(having, half) for half in (config.incoming, config.outgoing))


@given(HALVES, HALVES, ACKED)
def test_committed_is_the_highest_index_that_both_majorities_have(incoming, outgoing, acked):
    config = JointConfig(incoming, outgoing)
    committed = config.committed_index(acked.get)
    if not incoming and not outgoing:
        assert committed == NO_LIMIT
        return
    assert committed == max(
        index for index in range(10) if index == 0 or agreed(config, index, acked)
    )


@given(HALVES, HALVES, VOTES)
def test_a_vote_is_open_as_long_as_those_to_come_can_turn_it(incoming, outgoing, votes):
    halves = incoming, outgoing
    missing = (incoming | outgoing) - votes.keys()
    ends = set()
    for late in product([True, False], repeat=len(missing)):
        cast = votes | dict(zip(missing, late, strict=True))
        granted = {voter for voter, yes in cast.items() if yes}
        ends.add(all(is_majority(granted, half) for half in halves))
    expected = {(True,): VoteResult.WON, (False,): VoteResult.LOST}
    result = JointConfig(incoming, outgoing).vote_result(votes)
    assert result is expected.get(tuple(ends), VoteResult.PENDING)


@given(HALVES, ACKED)
def test_an_empty_outgoing_half_changes_nothing(config, acked):
    alone = config.committed_index(acked.get)
    assert JointConfig(config, MajorityConfig()).committed_index(acked.get) == alone
    assert JointConfig(config, config).committed_index(acked.get) == alone


def test_votes_of_strangers_do_not_count():
    votes = {1: True, 7: True, 8: True}
    assert MajorityConfig({1, 2, 3}).vote_result(votes) is VoteResult.PENDING


@pytest.mark.parametrize(
    ("config", "printed"),
    [
        (JointConfig(), "()"),
        (JointConfig(MajorityConfig({10, 2, 1})), "(1 2 10)"),
        (JointConfig(MajorityConfig({3, 2}), MajorityConfig({1})), "(2 3)&&(1)"),
    ],
)
def test_configurations_are_printed_in_order(config, printed):
    assert str(config) == printed


def test_a_joint_configuration_has_the_voters_of_both_halves():
    config = JointConfig(MajorityConfig({1, 2}), MajorityConfig({2, 3}))
    assert config.ids() == {1, 2, 3}
    assert [node in config for node in (1, 3, 4)] == [True, True, False]
