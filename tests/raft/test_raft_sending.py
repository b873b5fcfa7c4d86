"""What a leader sends to those who lag, and when it sends nothing."""

from penstock.raft.progress import ProgressState
from penstock.raft.types import ConfState, MessageKind, SnapshotMeta, SnapshotUnavailable
from tests.raft.driving import leader
from tests.raft.scenario.storage import MemoryLog


class Reluctant(MemoryLog):
    """Makes no snapshot for now."""

    is_willing = False

    def snapshot(self) -> SnapshotMeta:
        if not self.is_willing:
            raise SnapshotUnavailable
        return super().snapshot()


def sent_to(driven, to=3):
    return [m.kind for ready in driven.settle() for m in ready.messages if m.to == to]


def behind_a_compacted_log(log=None):
    """Number 1 leads, and number 3 needs entries that are compacted."""
    driven = leader(1, 2, 3, log=log)
    driven.raw.report_unreachable(3)
    driven.raw.propose([b"a", b"b", b"c"])
    for ready in driven.settle():
        for entry in ready.committed:
            driven.log.applied(entry, None)
    driven.acknowledge(2)
    for ready in driven.settle():
        for entry in ready.committed:
            driven.log.applied(entry, None)
    driven.log.compact(3)
    return driven


def reject(driven, hint=0):
    """Number 3 has lost all it had, as seen from the leader."""
    progress = driven.raw.node.tracker.progress[3]
    progress.match = 0
    driven.answer(MessageKind.APPEND_RESPONSE, 3, progress.next - 1, reject=True, reject_hint=hint)


def state(driven):
    return driven.raw.status().progress[3].state


def test_who_needs_what_is_compacted_gets_a_snapshot_and_nothing_else():
    driven = behind_a_compacted_log()
    reject(driven)
    assert sent_to(driven) == [MessageKind.SNAPSHOT]
    assert state(driven) is ProgressState.SNAPSHOT
    driven.raw.propose(b"d")
    assert sent_to(driven) == []
    driven.raw.tick()
    assert sent_to(driven) == [MessageKind.HEARTBEAT]


def test_after_a_snapshot_was_sent_its_answer_is_waited_for():
    driven = behind_a_compacted_log()
    reject(driven)
    driven.settle()
    driven.raw.report_snapshot(3, is_ok=True)
    assert state(driven) is ProgressState.PROBE
    assert driven.raw.status().progress[3].next == 5
    driven.raw.propose(b"d")
    assert sent_to(driven) == []
    driven.acknowledge(3, 4)
    assert state(driven) is ProgressState.REPLICATE
    assert sent_to(driven) == [MessageKind.APPEND]


def test_after_a_snapshot_failed_the_next_is_tried_with_the_next_heartbeat():
    driven = behind_a_compacted_log()
    reject(driven)
    driven.settle()
    driven.raw.report_snapshot(3, is_ok=False)
    assert driven.raw.status().progress[3].next == 1
    driven.raw.propose(b"d")
    assert sent_to(driven) == []
    driven.answer(MessageKind.HEARTBEAT_RESPONSE, 3)
    assert sent_to(driven) == [MessageKind.SNAPSHOT]


def test_no_snapshot_for_now_means_that_it_is_asked_for_again():
    log = Reluctant(SnapshotMeta(0, 0, ConfState(voters=(1, 2, 3))))
    driven = behind_a_compacted_log(log)
    reject(driven)
    assert sent_to(driven) == []
    log.is_willing = True
    driven.answer(MessageKind.HEARTBEAT_RESPONSE, 3)
    assert sent_to(driven) == [MessageKind.SNAPSHOT]


def test_who_was_not_heard_of_gets_no_snapshot():
    driven = behind_a_compacted_log()
    progress = driven.raw.node.tracker.progress[3]
    progress.match = 0
    progress.become_probe()
    progress.recent_active = False
    driven.raw.propose(b"d")
    assert sent_to(driven) == []


def test_what_is_committed_is_told_to_all_at_once():
    driven = leader(1, 2, 3)
    driven.raw.propose(b"x")
    driven.settle()
    driven.acknowledge(2)
    sent = [m for m in driven.raw.ready().messages if m.kind is MessageKind.APPEND]
    assert [(m.to, m.commit, m.entries) for m in sent] == [(2, 2, ()), (3, 2, ())]


def test_a_full_window_lets_nothing_pass_until_something_arrived():
    driven = leader(1, 2, 3, inflight_messages_max=2)
    for _ in range(4):
        driven.raw.propose(b"x")
    assert len([kind for kind in sent_to(driven) if kind is MessageKind.APPEND]) == 2
    driven.acknowledge(3, 2)
    ready = driven.raw.ready()
    assert [m.entries[-1].index for m in ready.messages if m.to == 3 and m.entries] == [5]


def test_an_answer_that_comes_late_takes_nothing_back():
    driven = leader(1, 2, 3)
    for _ in range(3):
        driven.raw.propose(b"x")
    driven.settle()
    driven.acknowledge(3, 4)
    before = driven.raw.status().progress[3]
    driven.acknowledge(3, 2)
    driven.answer(MessageKind.APPEND_RESPONSE, 3, 3, reject=True, reject_hint=1)
    assert driven.raw.status().progress[3] == before
    assert driven.raw.node.tracker.progress[3].state is ProgressState.REPLICATE
