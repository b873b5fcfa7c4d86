"""Faults that implementations of Raft have had, as far as they are known."""

from tests.raft.planting import Check, Fault, Patch, Script, Seeds, in_core

FAULTS = (
    Fault(
        "an append cuts what follows it, conflict or not",
        (
            in_core(
                "log",
                (
                    "        conflict = self._find_conflict(entries)\n"
                    "        if conflict:\n"
                    "            self.append(entries[conflict - previous - 1 :])\n"
                ),
                ("        if entries:\n            self.append(entries)\n"),
            ),
        ),
        (
            Seeds(0),
            Script("an_uncommitted_tail_is_overwritten"),
        ),
    ),
    Fault(
        "an acknowledgement takes next back",
        (
            in_core(
                "progress",
                "self.next = max(self.next, index + 1)",
                "self.next = index + 1",
            ),
        ),
        (Check("test_raft_progress", "test_an_acknowledgement_never_takes_next_back"),),
    ),
    Fault(
        "an acknowledgement of an earlier term counts",
        (
            in_core(
                "node",
                (
                    "                self._on_earlier_term(message)\n"
                    "                return\n"
                    "            if not self._on_later_term(message):\n"
                    "                return\n"
                ),
                (
                    "                if message.kind is not MessageKind.APPEND_RESPONSE:\n"
                    "                    self._on_earlier_term(message)\n"
                    "                    return\n"
                    "            elif not self._on_later_term(message):\n"
                    "                return\n"
                ),
            ),
        ),
        (Script("an_answer_of_an_older_term_is_ignored"),),
    ),
    Fault(
        "entries are acknowledged before they are written",
        (
            in_core(
                "participant",
                (
                    "        self.after_persist.append(\n"
                    "            RaftMessage(MessageKind.APPEND_RESPONSE"
                ),
                (
                    "        (self.after_persist if to == self.id else self.messages).append(\n"
                    "            RaftMessage(MessageKind.APPEND_RESPONSE"
                ),
            ),
        ),
        (
            Seeds(2),
            Check("test_raft_persistence", "test_an_acknowledgement_waits_for_the_disk"),
        ),
    ),
    Fault(
        "a leader counts its own copy before it is written",
        (
            in_core(
                "replication",
                "    node.acknowledge(node.id, log.last_index)\n",
                (
                    "    node.tracker.progress[node.id].maybe_update(log.last_index)\n"
                    "    maybe_commit(node)\n"
                ),
            ),
        ),
        (
            Seeds(0),
            Script("a_leader_counts_itself_only_when_it_has_written"),
        ),
    ),
    Fault(
        "a vote is given before it is written",
        (
            in_core(
                "elections",
                (
                    "    node.after_persist.append(RaftMessage(kind, message.sender, node.id, message.term))\n"
                    "    if is_real"
                ),
                (
                    "    node.messages.append(RaftMessage(kind, message.sender, node.id, message.term))\n"
                    "    if is_real"
                ),
            ),
        ),
        (
            Seeds(37),
            Script("a_vote_leaves_only_when_it_is_written"),
        ),
    ),
    Fault(
        "a candidate counts its own vote before it is written",
        (
            in_core(
                "elections",
                ("node.after_persist.append(RaftMessage(_RESPONSES[kind], voter, node.id, term))"),
                "node.tracker.record_vote(voter, True)",
            ),
        ),
        (
            Check(
                "test_raft_persistence",
                "test_a_candidate_asks_at_once_and_counts_its_own_vote_later",
            ),
        ),
    ),
    Fault(
        "an entry of an earlier term is committed by counting",
        (
            in_core(
                "log",
                "if index <= self.committed or not self.matches(index, term):",
                "if index <= self.committed:",
            ),
        ),
        (
            Seeds(7),
            Script("an_older_term_is_not_committed_by_counting"),
        ),
    ),
    Fault(
        "two changes of the members are under way at once",
        (
            in_core(
                "leading",
                "    node.pending_conf_index = node.log.last_index + place\n",
                "",
            ),
        ),
        (
            Seeds(12),
            Script("learners_are_promoted_one_at_a_time"),
        ),
    ),
    Fault(
        "members change before the first commit of the term",
        (
            in_core(
                "participant",
                "        self.pending_conf_index = self.log.last_index\n",
                "",
            ),
            in_core(
                "leading",
                (
                    "    if not node.has_committed_in_term():\n"
                    '        return "nothing of this term is committed yet"\n'
                ),
                "",
            ),
        ),
        (
            Seeds(91),
            Check(
                "test_raft_proposals",
                "test_no_change_is_taken_before_something_of_the_term_is_committed",
            ),
        ),
    ),
    Fault(
        "a snapshot is installed and the tail behind it stays",
        (
            in_core(
                "log",
                ("        self.committed = self.last_index = self._tail_start = snapshot.index\n"),
                (
                    "        self.committed = self._tail_start = snapshot.index\n"
                    "        self.last_index = max(self.last_index, snapshot.index)\n"
                ),
            ),
        ),
        (Script("snapshot_over_a_diverging_tail"),),
    ),
    Fault(
        "a log is compacted beyond what is durably applied",
        (
            Patch(
                "tests.raft.simulation.operator",
                "index = member.applied - ",
                "index = min(member.state.index, member.disk.log.last) - ",
            ),
            Patch(
                "tests.raft.simulation.disk",
                'assert index <= self.state.index, "compacted beyond what is durably applied"',
                "",
            ),
        ),
        (Seeds(0),),
    ),
    Fault(
        "a candidate counts pre-votes as votes",
        (
            in_core(
                "elections",
                ("    (Role.PRE_CANDIDATE, MessageKind.PRE_VOTE_RESPONSE): _on_vote_response,"),
                (
                    "    (Role.PRE_CANDIDATE, MessageKind.PRE_VOTE_RESPONSE): _on_vote_response,\n"
                    "    (Role.CANDIDATE, MessageKind.PRE_VOTE_RESPONSE): _on_vote_response,"
                ),
            ),
        ),
        (Seeds(94),),
    ),
    Fault(
        "a pre-vote of an earlier term is granted",
        (
            in_core(
                "node",
                "            elections.reject_vote(self, message)\n",
                "            elections.on_vote(self, message)\n",
            ),
        ),
        (
            Check(
                "test_raft_terms",
                "test_a_pre_vote_of_an_earlier_term_is_refused_with_the_term_of_now",
            ),
        ),
    ),
    Fault(
        "a pre-vote is granted while a leader is heard of",
        (
            in_core(
                "node",
                "        if kind in _ASKS and self",
                "        if kind is MessageKind.VOTE and self",
            ),
        ),
        (Script("prevote_of_a_node_that_was_cut_off"),),
    ),
    Fault(
        "a pre-vote makes others go to a later term",
        (
            in_core(
                "node",
                "            return True  # it only asks",
                "            pass",
            ),
        ),
        (Script("prevote_is_refused_to_a_shorter_log"),),
    ),
    Fault(
        "a read does not wait for the first commit of the term",
        (
            in_core(
                "leading",
                ("    if node.has_committed_in_term():\n        _begin_read(node, message"),
                ("    if True:\n        _begin_read(node, message"),
            ),
        ),
        (
            Seeds(75),
            Script("read_index_waits_for_the_first_commit_of_the_term"),
        ),
    ),
)
