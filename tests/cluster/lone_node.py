"""A broker's log and cluster for tests of the layers above: a writer thread, without peers."""

import asyncio
import contextlib

from penstock.cluster.consensus import Leadership
from penstock.cluster.frames import Member
from penstock.cluster.status import ClusterStatus, MemberStatus, NodeState
from penstock.errors import ClusterError, StorageError
from penstock.store.writer import Writer

_LONE_ID = 1


class LoneNode:
    """A broker's ``Log`` and ``Consensus`` without a core: whatever is written is agreed upon."""

    node_id = _LONE_ID
    is_clustered = False
    is_lone = True
    is_leader = True
    is_writable = True
    has_room = False  # one batch at a time
    leader = _LONE_ID
    term = 1

    def __init__(self, store):
        self._store = store
        self._listener = None
        self._loop = None
        self._writer = Writer(store, self._done_on_writer)
        self.leader_addr = ""

    def present(self):
        return frozenset({_LONE_ID})

    leadership = Leadership(_LONE_ID, 1, is_leader=True)

    def on_leadership(self, listener):
        """It never changes."""

    def broadcast(self, topic, payloads):
        pass

    def begin(self, listener):
        """See ``Log``."""
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._writer.start()

    def submit(self, batch):
        """See ``Log``."""
        self._writer.submit(batch)

    def run_on_writer(self, job):
        """See ``Log``."""
        self._writer.run(job)

    def close(self):
        """See ``Log``."""
        self._writer.close()

    def _done_on_writer(self, batch, outcome):
        """On the writer thread: hand the outcome to the loop, which may be gone by now."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._done, batch, outcome)

    def _done(self, batch, outcome):
        if isinstance(outcome, StorageError):
            self._listener.refused(batch, outcome)
        else:
            self._listener.committed(batch, outcome)

    def own(self):
        """A node without peers needs no address for them."""
        return Member(_LONE_ID, "", self.leader_addr)

    def status(self):
        """What is committed is applied, and no node lags."""
        last = self._store.next_index - 1
        own = MemberStatus(
            id=_LONE_ID, client_addr=self.leader_addr, match=last, lag=0, is_active=True
        )
        return ClusterStatus(
            node_id=_LONE_ID,
            state=NodeState.LONE,
            leader=_LONE_ID,
            leader_addr=self.leader_addr,
            commit=last,
            applied=last,
            last_index=last,
            members=(own,),
        )

    def read_barrier(self, then):
        """No other node could have acknowledged anything."""
        then(None)

    def bootstrap(self, members, then):
        """It has begun already; whatever the list, it needs no other."""
        then(None)

    def add(self, member, then):
        """Refuse: no node could reach it."""
        then(_alone(f"node {member.id} cannot join"))

    def remove(self, node_id, then):
        """Refuse: there is no node to remove."""
        then(_alone(f"node {node_id} cannot be removed"))

    def transfer(self, node_id, then):
        """Refuse, unless it leads already: no other node could."""
        then(None if node_id == _LONE_ID else _alone(f"node {node_id} cannot lead"))


def _alone(what):
    return ClusterError(
        f"{what}: this broker stands alone",
        "start it with --node-id and --peer-listen, and others can join",
    )
