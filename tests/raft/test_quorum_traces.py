"""etcd's traces of quorums, to the letter."""

import pytest

from penstock.raft.quorum import JointConfig, MajorityConfig, VoteResult
from penstock.raft.types import NO_LIMIT
from tests.raft.datadriven import directives, trace_files

VOTES = {"y": True, "n": False}
PRINTED = {
    VoteResult.PENDING: "VotePending",
    VoteResult.LOST: "VoteLost",
    VoteResult.WON: "VoteWon",
}


def nodes(directive, name):
    """The nodes of one half; ``zero`` is an empty half."""
    given = directive.values(name) or ()
    return [] if given == ("zero",) else [int(node) for node in given]


def answer(directive):
    incoming, outgoing = nodes(directive, "cfg"), nodes(directive, "cfgj")
    config = MajorityConfig(incoming)
    if directive.values("cfgj"):
        config = JointConfig(config, MajorityConfig(outgoing))
    # Values belong to the nodes in the order in which these are named for the first time.
    named = list(dict.fromkeys([*incoming, *outgoing]))
    if directive.command == "vote":
        given = zip(named, directive.values("votes") or (), strict=True)
        return f"{PRINTED[config.vote_result({n: VOTES[v] for n, v in given if v != '_'})]}\n"
    given = zip(named, directive.values("idx") or (), strict=True)
    acked = {node: int(index) for node, index in given if index != "_"}
    committed = config.committed_index(acked.get)
    return f"{config.describe(acked.get)}{'∞' if committed == NO_LIMIT else committed}\n"


@pytest.mark.parametrize("path", trace_files("quorum/testdata"))
def test_quorums_decide_as_in_the_trace(path):
    for directive in directives(path):
        assert answer(directive) == directive.expected, directive.place
