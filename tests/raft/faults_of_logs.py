"""Faults of the log: what is in it, how far it is committed, what is on the disk."""

from tests.raft.planting import Check, Fault, Script, Seeds, in_core

FAULTS = (
    # ── The log
    Fault(
        "half of the voters commit",
        (
            in_core(
                "quorum",
                "indexes[(len(indexes) - 1) // 2]",
                "indexes[len(indexes) // 2]",
            ),
        ),
        (
            Seeds(10),
            Script("learners_are_promoted_one_at_a_time"),
        ),
    ),
    Fault(
        "a learner has a vote",
        (
            in_core(
                "confchange",
                ("            progress.is_learner = True\n            self.learners.add(node_id)"),
                ("            progress.is_learner = False\n            self.incoming.add(node_id)"),
            ),
        ),
        (Seeds(5),),
    ),
    Fault(
        "a heartbeat commits what a follower may not have",
        (
            in_core(
                "replication",
                "        commit = min(progress.match, node.log.committed)\n",
                "        commit = node.log.committed\n",
            ),
        ),
        (Seeds(9),),
    ),
    Fault(
        "a follower commits entries that the leader did not mention",
        (
            in_core(
                "log",
                "self.commit_to(min(commit, last_new))",
                "self.commit_to(min(commit, self.last_index))",
            ),
        ),
        (Check("test_raft_log", "test_a_leaders_entries_are_taken_from_the_first_conflict_on"),),
    ),
    Fault(
        "a follower acknowledges entries that the leader did not mention",
        (
            in_core(
                "following",
                "        node.acknowledge(message.sender, last)\n",
                "        node.acknowledge(message.sender, log.last_index)\n",
            ),
        ),
        (Check("test_raft_persistence", "test_an_old_append_cuts_nothing_off"),),
    ),
    Fault(
        "entries of the same place pass for the same",
        (
            in_core(
                "log",
                (
                    "            if not self.matches(entry.index, entry.term):\n                self.trace("
                ),
                ("            if entry.index > self.last_index:\n                self.trace("),
            ),
        ),
        (
            Seeds(15),
            Script("an_uncommitted_tail_is_overwritten"),
        ),
    ),
    Fault(
        "entries are taken behind an entry of another term",
        (
            in_core(
                "log",
                ("        if not self.matches(previous, previous_term):\n            return None"),
                ("        if previous > self.last_index:\n            return None"),
            ),
        ),
        (
            Script("an_older_term_is_not_committed_by_counting"),
            Check("test_raft_log", "test_entries_that_follow_on_another_log_are_not_taken"),
        ),
    ),
    Fault(
        "what a follower had in an earlier term counts in the next",
        (
            in_core(
                "participant",
                "match=last if node_id == self.id else 0",
                "match=last if node_id == self.id else old.match",
            ),
        ),
        (Script("an_older_term_is_not_committed_by_counting"),),
    ),
    Fault(
        "a snapshot of what is committed here is installed",
        (
            in_core(
                "following",
                ("    if snapshot.index <= log.committed:\n        return False\n"),
                "",
            ),
        ),
        (Check("test_raft_terms", "test_a_snapshot_of_what_is_committed_here_changes_nothing"),),
    ),
    Fault(
        "a snapshot that did not arrive counts as taken",
        (
            in_core(
                "leading",
                "        progress.pending_snapshot = 0",
                "        progress.match += 0",
            ),
        ),
        (
            Check(
                "test_raft_terms",
                "test_after_a_snapshot_that_did_not_arrive_a_follower_is_asked_where_it_stands",
            ),
        ),
    ),
    Fault(
        "a rejection changes nothing",
        (
            in_core(
                "progress",
                "            if rejected <= self.match:",
                "            if True:",
            ),
        ),
        (Script("transfer_to_a_lagging_follower"),),
    ),
    Fault(
        "what has arrived still fills the window",
        (
            in_core(
                "inflights",
                "sent[0][0] <= index",
                "sent[0][0] < index - 99999",
            ),
        ),
        (Script("transfer_to_a_lagging_follower"),),
    ),
    Fault(
        "a term begins without an entry of its own",
        (
            in_core(
                "elections",
                "    replication.append_empty(node)\n",
                "",
            ),
        ),
        (Script("an_older_term_is_not_committed_by_counting"),),
    ),
    # ── Batches on their way to the disk
    Fault(
        "a batch of an earlier term counts as written",
        (
            in_core(
                "node",
                ("        if term == self.term:\n            self.log.unstable"),
                ("        if True:\n            self.log.unstable"),
            ),
        ),
        (
            Check(
                "test_raft_persistence",
                "test_a_mark_of_an_earlier_term_counts_for_nothing_though_its_entry_is_here_again",
            ),
        ),
    ),
    Fault(
        "a replaced entry counts as written",
        (
            in_core(
                "log",
                "if here == term and index >= self.offset:",
                "if here is not None and index >= self.offset:",
            ),
        ),
        (
            Check(
                "test_raft_terms",
                "test_an_entry_that_was_replaced_in_the_same_term_does_not_count_as_written",
            ),
        ),
    ),
    Fault(
        "entries that replace others are not handed out",
        (
            in_core(
                "log",
                "            self.in_progress = min(self.in_progress, start)\n",
                "",
            ),
        ),
        (Check("test_raft_log", "test_a_cut_into_what_is_being_written_is_handed_out_again"),),
    ),
    Fault(
        "entries are applied before they are written",
        (
            in_core(
                "log",
                ("return self.committed if applies_unstable else min(self.committed, stable)"),
                "return self.committed if stable else 0",
            ),
        ),
        (Seeds(0),),
    ),
    Fault(
        "two voters change in one step",
        (
            in_core(
                "confchange",
                "> 1:",
                "> 9:",
            ),
        ),
        (Check("test_raft_confchange", "test_simple_changes_never_change_more_than_one_voter"),),
    ),
)
