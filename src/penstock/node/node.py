"""The broker as a node of a cluster: its replica, and the transport to other nodes.

A broker without a peer address is a cluster of one node, and runs the same code.
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
from penstock.config.cluster import advertised, cluster_secrets
from penstock.config.digest import settings_digest
from penstock.config.schema import Cluster, Config
from penstock.model.message import Extras
from penstock.raft.types import NodeId, RaftMessage
from penstock.store.batch import Batch
from penstock.store.directory import read_marker
from penstock.store.store import LogStore

LONE_PAUSE_S = 0.001

HAND_OVER_S = 1.0  # how long a stopping node waits for another to lead


class _NoPeers:
    """The transport of a node without peers."""

    def __init__(self) -> None:
        self.stats = TransportStats()

    def send(self, to: NodeId, frame: Frame) -> None:
        pass

    def set_members(self, members: object) -> None:
        pass

    def is_reached(self, _node: NodeId) -> bool:
        return False

    def answers(self, _node: NodeId) -> bool:
        return False


class Node:
    """The replica and its transport, started and stopped by the server."""

    def __init__(
        self,
        config: Config,
        store: LogStore,
        clock: Clock,
        steady: SteadyClock,
        *,
        pass_on: Callable[[bytes, list[bytes], list[Extras | None] | None, int], None],
        is_late: Callable[[Batch], bool],
        arrived: Callable[[], None] = lambda: None,
    ) -> None:
        """``pass_on`` delivers live messages of other nodes.

        ``is_late`` returns, on any thread, whether a client has repeated messages of a batch at
        another node. ``arrived`` is called when a snapshot was received and can be installed.
        """
        settings = config.cluster
        self._settings = settings
        self._clock = clock
        self._member = identity_of(settings, str(advertised(config) or ""))
        self._digest = settings_digest(config)
        self._security = security_of(settings) if settings.peer_listen else PeerSecurity()
        self.transport = self._make_transport() if settings.peer_listen else None
        environment = ReplicaEnvironment(
            settings=settings,
            member=self._member,
            peers=self.transport or _NoPeers(),
            monotonic=clock.monotonic,
            roll=secrets.randbelow,
            hooks=BrokerHooks(
                steady.now_ms,
                steady.follow,
                pass_on,
                is_late,
            ),
        )
        self.replica = Replica(store, environment)
        if self.transport is not None:
            self.transport.snapshots = self._make_snapshots(Path(config.data), store, arrived)

    def prepare_security(self) -> PeerSecurity | None:
        """Read the files for other nodes again, in any thread; None if there are no other nodes.

        Raises ConfigError if other nodes would refuse what is in them.
        """
        if self.transport is None:
            return None
        new = security_of(self._settings)
        self._security.check_replacement(new, self.replica.node_id)
        return new

    def replace_security(self, new: PeerSecurity) -> list[str]:
        """Meet other nodes with other credentials from now on; return what changed.

        Connections that exist go on. Raises ConfigError, and changes nothing then.
        """
        return self._security.replace(new, self.replica.node_id)

    def _make_transport(self) -> Transport:
        return Transport(
            identity=self._identity,
            security=self._security,
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
            source=marker.store if (marker := read_marker(data)) else "",
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
        """Whether a snapshot is from the current leader and newer than what is applied here."""
        meta, replica = message.snapshot, self.replica
        is_newer = meta is not None and meta.index > replica.applied_index
        return is_newer and message.term >= replica.term

    def _identity(self) -> Identity:
        record = self.replica.record
        address, settings = self._member.peer_addr, self._digest
        return Identity(record.node_id, record.incarnation, record.cluster_id, address, settings)

    # ── start and stop ────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Listen for peers; a lone node waits until it leads, which takes one write."""
        if self.transport is not None:
            await self.transport.start(parse_listen(self._settings.peer_listen))
        while self.replica.is_lone and not self.replica.is_leader:  # noqa: ASYNC110
            await asyncio.sleep(LONE_PAUSE_S)

    async def hand_over(self) -> None:
        """Transfer leadership before this node stops; wait at most ``HAND_OVER_S``."""
        self.replica.hand_over()
        deadline = self._clock.monotonic() + HAND_OVER_S
        while self.replica.is_leader and not self.replica.is_lone:
            if self._clock.monotonic() > deadline:
                return
            await asyncio.sleep(LONE_PAUSE_S)

    async def stop(self) -> None:
        if self.transport is not None:
            await self.transport.stop()

    # ── FrameReceiver ─────────────────────────────────────────────────────────────────────────

    def received(self, sender: NodeId, frame: Frame) -> None:
        self.replica.frames.received(sender, frame)

    def unreachable(self, node: NodeId) -> None:
        self.replica.frames.unreachable(node)


def security_of(settings: Cluster) -> PeerSecurity:
    """How peers authenticate each other, as configured. Raises ConfigError."""
    files = (settings.tls_cert, settings.tls_key, settings.tls_ca)
    tls = TlsFiles(*map(Path, files)) if any(files) else None
    secret, *others = cluster_secrets(settings)
    return PeerSecurity(secret, tls, tuple(others))
