"""Faults of elections and of reads: who leads, and who only believes to."""

from tests.raft.planting import Check, Fault, Script, Seeds, in_core

FAULTS = (
    # ── Reads
    Fault(
        "one answer confirms a read",
        (
            in_core(
                "read_only",
                "confirmed = min(voters.committed_index(self._acks.get), self._last)",
                "confirmed = min(max(self._acks.values(), default=0), self._last)",
            ),
        ),
        (Script("answers_to_different_heartbeats_confirm_a_read"),),
    ),
    Fault(
        "a leader answers reads without asking anybody",
        (
            in_core(
                "leading",
                "        node.read_only.acknowledge(node.id, number)\n",
                (
                    "        for voter in node.tracker.voter_nodes():\n"
                    "            node.read_only.acknowledge(voter, number)\n"
                    "        _confirm_reads(node, node.id, number)\n"
                ),
            ),
        ),
        (Check("test_raft_reads", "test_a_leader_of_one_other_voter_does_not_answer_alone"),),
    ),
    Fault(
        "an answer to an earlier heartbeat confirms a later read",
        (
            in_core(
                "read_only",
                (
                    '        return self._last.to_bytes(_NUMBER_BYTES, "big") if self._reads else b""'
                ),
                ('        return (1).to_bytes(_NUMBER_BYTES, "big") if self._reads else b""'),
            ),
            in_core(
                "read_only",
                (
                    '        number = int.from_bytes(context, "big") if len(context) == _NUMBER_BYTES else 0'
                ),
                "        number = self._last if context else 0",
            ),
        ),
        (
            Check(
                "test_raft_reads",
                "test_an_answer_to_an_earlier_heartbeat_does_not_confirm_a_later_read",
            ),
        ),
    ),
    # ── Elections
    Fault(
        "a node votes for two in one term",
        (
            in_core(
                "elections",
                "(node.vote == NO_NODE and node.lead == NO_NODE)",
                "node.lead == NO_NODE",
            ),
        ),
        (
            Seeds(3),
            Script("a_vote_outlives_a_restart"),
        ),
    ),
    Fault(
        "a vote is not noted",
        (
            in_core(
                "elections",
                "        node.vote = message.sender\n",
                "",
            ),
        ),
        (Seeds(0),),
    ),
    Fault(
        "a vote is forgotten within its term",
        (
            in_core(
                "participant",
                (
                    "        if self.term != term:\n"
                    "            self.term = term\n"
                    "            self.vote = NO_NODE"
                ),
                ("        self.term = term\n        self.vote = NO_NODE"),
            ),
        ),
        (Seeds(0),),
    ),
    Fault(
        "a vote is not written down",
        (
            in_core(
                "raw_node",
                ("if commit == self._commit and term == self._term and vote == self._vote:"),
                "if commit == self._commit and term == self._term:",
            ),
        ),
        (Seeds(22),),
    ),
    Fault(
        "a vote does not outlive a restart",
        (
            in_core(
                "participant",
                "        self.vote = state.vote\n",
                "",
            ),
        ),
        (
            Seeds(49),
            Script("a_vote_outlives_a_restart"),
        ),
    ),
    Fault(
        "a vote goes to a log that lacks entries",
        (
            in_core(
                "elections",
                "may_vote and node.log.is_up_to_date(message.index, message.log_term)",
                "may_vote",
            ),
        ),
        (
            Seeds(27),
            Script("prevote_is_refused_to_a_shorter_log"),
        ),
    ),
    Fault(
        "of logs the longer one wins, whatever its terms",
        (
            in_core(
                "log",
                "(term, index) >= (self._tail_term, self.last_index)",
                "index >= self.last_index",
            ),
        ),
        (Check("test_raft_log", "test_a_log_is_up_to_date_by_term_first"),),
    ),
    Fault(
        "half of the voters elect",
        (
            in_core(
                "quorum",
                "len(self) // 2 + 1 if self else 0",
                "(len(self) + 1) // 2",
            ),
        ),
        (Seeds(117),),
    ),
    Fault(
        "a node runs for election with a change to apply",
        (
            in_core(
                "elections",
                "    if _has_unapplied_change(node):\n",
                "    if False:\n",
            ),
        ),
        (
            Check(
                "test_raft_proposals",
                "test_a_leader_with_a_change_to_apply_in_its_log_does_not_run_for_election_meanwhile",
            ),
        ),
    ),
    Fault(
        "a leader without a quorum leads on",
        (
            in_core(
                "leading",
                "    if not node.tracker.quorum_active():",
                "    if False:",
            ),
        ),
        (Script("a_leader_without_a_majority_steps_down"),),
    ),
    Fault(
        "a leader of an earlier term is never told",
        (
            in_core(
                "node",
                "            self.acknowledge(message.sender, 0)\n",
                "            pass\n",
            ),
        ),
        (Check("test_raft_terms", "test_a_leader_of_an_earlier_term_is_told_of_the_term_of_now"),),
    ),
    Fault(
        "a transfer that came to nothing blocks for ever",
        (
            in_core(
                "node",
                (
                    "            # The transfer has timed out.\n"
                    "            self.lead_transferee = NO_NODE\n"
                ),
                "",
            ),
        ),
        (Script("transfer_that_comes_to_nothing"),),
    ),
)
