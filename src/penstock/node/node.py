"""The broker as a node: its replica, and the way to other nodes.

A broker that listens for nobody is a node, too: the only one. Its replica has the same code to run
and nobody to ask.
"""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

from penstock.clock import Clock, SteadyClock
from penstock.cluster.frames import Frame
from penstock.cluster.handshake import Identity
from penstock.cluster.local_node import BrokerHooks, ReplicaEnvironment
from penstock.cluster.peer_stats import TransportStats
from penstock.cluster.replica import Replica
from penstock.cluster.security import PeerSecurity, TlsFiles
from penstock.cluster.snapshot_receiver import SnapshotReceiver
from penstock.cluster.snapshot_sender import SnapshotSender
from penstock.cluster.snapshots import Snapshots
from penstock.cluster.start import identity_of
from penstock.cluster.transport import Transport
from penstock.config.address import parse_listen
from penstock.config.cluster import cluster_secret
from penstock.config.digest import settings_digest
from penstock.config.schema import Cluster, Config
from penstock.raft.types import NodeId, RaftMessage
from penstock.store.batch import Batch
from penstock.store.store import LogStore

LONE_PAUSE_S = 0.001

HAND_OVER_S = 1.0
"""How long a node that stops waits for another to lead."""


class _Nobody:
    """The way to other nodes where there are none."""

    def __init__(self) -> None:
        self.stats = TransportStats()

    def send(self, to: NodeId, frame: Frame) -> None:
        """Drop it."""

    def set_members(self, members: object) -> None:
        """There is only this one."""


class Node:
    """What a server starts and stops."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        clock: Clock,
        steady: SteadyClock,
        *,
        pass_on: Callable[[bytes, list[bytes]], None],
        is_late: Callable[[Batch], bool],
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the replica and, if nodes are to connect, the transport to them.

        ``pass_on`` delivers live messages of other nodes. ``is_late`` tells, on any thread, whether
        a client has repeated at another node what a batch holds. ``arrived`` is called when a copy
        of another node's store is here, to be installed.
        """
        settings = config.cluster
        self._settings = settings
        self._clock = clock
        self._member = identity_of(settings, config.listen[0])
        self._digest = settings_digest(config)
        self.transport = self._make_transport() if settings.peer_listen else None
        environment = ReplicaEnvironment(
            settings=settings,
            member=self._member,
            peers=self.transport or _Nobody(),
            monotonic=clock.monotonic,
            roll=secrets.randbelow,
            hooks=BrokerHooks(
                steady.now_ms,
                steady.follow,
                lambda topic, payloads: pass_on(topic, list(payloads)),
                is_late,
            ),
        )
        self.replica = Replica(store, environment)
        if self.transport is not None:
            self.transport.snapshots = self._make_snapshots(Path(config.data), store, arrived)

    def _make_transport(self) -> Transport:
        return Transport(
            identity=self._identity,
            security=security_of(self._settings),
            receiver=self,
            roll=secrets.randbelow,
        )

    def _make_snapshots(
        self, data: Path, store: LogStore, arrived: Callable[[], None]
    ) -> Snapshots:
        transport = self.transport
        assert transport is not None
        sender = SnapshotSender(
            copy=store.copy,
            dialer=transport.dialer,
            rate_bytes=self._settings.snapshot_rate_bytes,
            report=lambda node, is_ok: self.replica.frames.report_snapshot(node, is_ok=is_ok),
            stats=transport.stats,
        )
        receiver = SnapshotReceiver(
            data=data, wants=self._wants, arrived=arrived, stats=transport.stats
        )
        return Snapshots(sender, receiver)

    def _wants(self, _sender: NodeId, message: RaftMessage) -> bool:
        """Whether a snapshot is of use: it is from the leader of now, and has what we lack."""
        meta, replica = message.snapshot, self.replica
        is_newer = meta is not None and meta.index > replica.applied_index
        return is_newer and message.term >= replica.term

    def _identity(self) -> Identity:
        record = self.replica.record
        address, settings = self._member.peer_addr, self._digest
        return Identity(record.node_id, record.incarnation, record.cluster_id, address, settings)

    # ── beginning and end ─────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Listen for other nodes; where there are none, wait until we lead, which takes no time."""
        if self.transport is not None:
            await self.transport.start(parse_listen(self._settings.peer_listen))
        while self.replica.is_lone and not self.replica.is_leader:  # noqa: ASYNC110 - one write
            await asyncio.sleep(LONE_PAUSE_S)

    async def hand_over(self) -> None:
        """Let another node lead before this one stops, and wait for it a little."""
        self.replica.hand_over()
        deadline = self._clock.monotonic() + HAND_OVER_S
        while self.replica.is_leader and not self.replica.is_lone:
            if self._clock.monotonic() > deadline:
                return
            await asyncio.sleep(LONE_PAUSE_S)

    async def stop(self) -> None:
        """Say nothing more, and listen to nobody."""
        if self.transport is not None:
            await self.transport.stop()

    # ── what the transport tells, and what the replica asks ───────────────────────────────────

    def received(self, sender: NodeId, frame: Frame) -> None:
        """See ``FrameReceiver``."""
        self.replica.frames.received(sender, frame)

    def unreachable(self, node: NodeId) -> None:
        """See ``FrameReceiver``."""
        self.replica.frames.unreachable(node)


def security_of(settings: Cluster) -> PeerSecurity:
    """What nodes prove to each other, as configured; raises ConfigError."""
    files = (settings.tls_cert, settings.tls_key, settings.tls_ca)
    tls = TlsFiles(*map(Path, files)) if any(files) else None
    return PeerSecurity(cluster_secret(settings), tls)
