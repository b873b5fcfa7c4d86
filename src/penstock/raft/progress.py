"""What a leader knows of one follower, and how it may send to it.

A follower is in one of three states::

              rejected or unreachable
            ┌───────────────────────────┐
            ▼      acknowledged         │
          PROBE ──────────────────► REPLICATE
           │ ▲                          ▲
     log   │ │ snapshot failed,         │ acknowledged an index
  too short│ │ or was taken             │ that the log reaches
           ▼ │                          │
          SNAPSHOT ─────────────────────┘

``PROBE``      where its log diverges is unknown: one message at a time, until it responds
``REPLICATE``  it follows: messages are sent ahead, as many as the window allows
``SNAPSHOT``   what it needs is compacted: nothing is sent until the snapshot has arrived

``match`` is the last index that the follower is known to have, ``next`` the first that was not sent
to it. ``match < next`` always. Only an acknowledgement raises ``match``; nothing lowers it.
"""

from enum import IntEnum

import msgspec

from penstock.raft.inflights import Inflights


class ProgressState(IntEnum):
    """How entries are sent to a follower."""

    PROBE = 0
    REPLICATE = 1
    SNAPSHOT = 2

    def __str__(self) -> str:
        """As etcd prints it: ``StateProbe``."""
        return f"State{self.name.capitalize()}"


class PeerProgress(msgspec.Struct):
    """One follower, or the leader itself, as the leader sees it."""

    next: int
    inflights: Inflights
    match: int = 0
    state: ProgressState = ProgressState.PROBE
    pending_snapshot: int = 0  # in SNAPSHOT: the index of the snapshot in flight, else 0
    recent_active: bool = False  # heard from since the last quorum check
    msg_app_flow_paused: bool = False  # it must respond before more is sent: see ``is_paused``
    is_learner: bool = False
    commit_sent: int = 0  # the highest commit index that was sent to it and may have arrived

    def __str__(self) -> str:
        """As etcd prints it: ``StateProbe match=1 next=2 paused inactive``."""
        inflight = f"inflight={self.inflights.count}{'[full]' if self.inflights.full() else ''}"
        notes = (
            ("learner", self.is_learner),
            ("paused", self.is_paused()),
            (f"pendingSnap={self.pending_snapshot}", self.pending_snapshot > 0),
            ("inactive", not self.recent_active),
            (inflight, self.inflights.count > 0),
        )
        said = "".join(f" {note}" for note, holds in notes if holds)
        return f"{self.state!s} match={self.match} next={self.next}{said}"

    def become_probe(self) -> None:
        """Find out where the follower is.

        After SNAPSHOT: right behind the snapshot. If the follower did not take it, it rejects the
        probe and tells where it is.
        """
        self.next = max(self.match, self.pending_snapshot) + 1
        self._reset(ProgressState.PROBE)
        self.commit_sent = min(self.commit_sent, self.next - 1)

    def become_replicate(self) -> None:
        self._reset(ProgressState.REPLICATE)
        self.next = self.match + 1

    def become_snapshot(self, index: int) -> None:
        self._reset(ProgressState.SNAPSHOT)
        self.pending_snapshot = index
        self.next = index + 1
        self.commit_sent = index

    def _reset(self, state: ProgressState) -> None:
        self.state = state
        self.msg_app_flow_paused = False
        self.pending_snapshot = 0
        self.inflights.reset()

    def is_paused(self) -> bool:
        """Whether no entries may be sent for now.

        A probe waits for its response, a full window for room, a snapshot for its end. Heartbeats
        are sent all the same; their responses allow one more message, in case others were lost.
        """
        return self.msg_app_flow_paused or self.state is ProgressState.SNAPSHOT

    def sent_entries(self, count: int, size: int) -> None:
        if self.state is ProgressState.REPLICATE:
            if count:
                self.next += count
                self.inflights.add(self.next - 1, size)
            # An empty message may have been the one that a full window allows.
            self.msg_app_flow_paused = self.inflights.full()
            return
        assert self.state is ProgressState.PROBE, "sent entries while a snapshot is on its way"
        if count:
            self.msg_app_flow_paused = True

    def can_bump_commit(self, commit: int) -> bool:
        """Whether this commit index is news: neither it, nor one beyond all entries, was sent."""
        return self.commit_sent < commit and self.commit_sent < self.next - 1

    def sent_commit(self, commit: int) -> None:
        self.commit_sent = commit

    def maybe_update(self, index: int) -> bool:
        """Note an acknowledgement up to ``index``; False if known. ``next`` never goes back."""
        if index <= self.match:
            return False
        self.match = index
        self.next = max(self.next, index + 1)
        self.msg_app_flow_paused = False
        return True

    def maybe_decr_to(self, rejected: int, match_hint: int) -> bool:
        """Note a rejection of what followed ``rejected``; False if it is stale."""
        if self.state is ProgressState.REPLICATE:
            # It has what it acknowledged; a rejection of that is stale.
            if rejected <= self.match:
                return False
            self.next = self.match + 1
        elif self.next - 1 != rejected:
            # Only one probe is in flight, and this does not respond to it.
            return False
        else:
            self.next = max(min(rejected, match_hint + 1), self.match + 1)
            self.msg_app_flow_paused = False
        self.commit_sent = min(self.commit_sent, self.next - 1)
        return True
