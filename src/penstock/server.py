"""Starts and stops a broker; ``assembly.py`` has its parts.

Start: open the store, load the checkpoint, replay the entries after it, end the sessions that were
connected in the last incarnation, listen. Stop: stop accepting, close clients (wills are
published), commit what was accepted, close the store.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from itertools import islice
from math import inf
from pathlib import Path
from typing import NamedTuple

from penstock import __version__
from penstock.access.exposure import check_exposure
from penstock.admin.app import API_BASE, create_app
from penstock.admin.bootstrap import bootstrap_token
from penstock.admin.guard import AccessParts, Guard
from penstock.admin.web_sessions import WebSessions
from penstock.api.app import create_api
from penstock.api.beat import Beat
from penstock.api.measurements import Measurements
from penstock.api.messages import BODY_BYTES_MAX as MESSAGE_BODY_BYTES_MAX
from penstock.api.parts import Configured, Parts
from penstock.api.peer_requests import PeerDoor
from penstock.assembly import Assembly
from penstock.bridge.bridges import NodeBridges
from penstock.clock import Clock, SteadyClock, SystemClock
from penstock.cluster.install import install
from penstock.commit.recovery import SignedBefore, recover, signed_before
from penstock.config.address import Address, parse_listen
from penstock.config.hosts import own_names
from penstock.config.listeners import wanted
from penstock.config.reloading import with_changes
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.stale_publishes import has_stored_number, is_stale
from penstock.delivery.fanout import LiveFanout
from penstock.errors import Refused
from penstock.limits import ACCESS_DOCUMENT_BYTES_MAX
from penstock.net.admin_socket import AdminSocket
from penstock.net.certificates import Certificates
from penstock.net.detect import Protocol
from penstock.net.http import BODY_BYTES_MAX, KEEP_ALIVE_S, HttpDoor
from penstock.net.listener import Door, Listener
from penstock.net.origin import Origin
from penstock.net.tls_entrance import TlsEntrance
from penstock.net.websocket_entrance import WebSocketEntrance
from penstock.node.access_admin import NodeAccessAdmin
from penstock.node.client_admin import NodeClientAdmin
from penstock.node.cluster_admin import NodeClusterAdmin
from penstock.node.explaining.explainer import NodeExplainer
from penstock.node.explaining.parts import ExplainingParts
from penstock.node.key_admin import NodeKeyAdmin
from penstock.node.node import Node
from penstock.node.queue_admin import NodeQueueAdmin
from penstock.node.retained_admin import NodeRetainedAdmin
from penstock.node.schedule_admin import NodeScheduleAdmin
from penstock.node.spark_admin import NodeSparkAdmin
from penstock.node.sys_topics import SysTopics
from penstock.node.tls_admin import NodeTlsAdmin, TlsView
from penstock.node.topic_publisher import NodePublishing, NodeTopicPublisher
from penstock.node.topic_view import NodeTopicView
from penstock.node.view import NodeView
from penstock.node.workers import WorkerLookout
from penstock.obs.counters import Counters
from penstock.obs.events import Events
from penstock.obs.log import get_logger
from penstock.obs.printable import printable
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.retention.runner import RetentionRunner
from penstock.staging.visible_store import VisibleStore
from penstock.store.batch import Batch
from penstock.store.blocks.format import RAW, ZSTD
from penstock.store.directory import read_marker
from penstock.store.free_space import DiskWatch
from penstock.store.lmdb_store import LmdbStore
from penstock.store.store import LogStore, Store
from penstock.trust.bans import Bans

TURN_S = 0.25  # between two rounds of periodic tasks
STOP_TOLD_S = 1.0  # a stop that takes longer says who does not read
STREAMS_END_S = 0.5  # for event streams to say that the broker stops

_log = get_logger("server")


class Origins(NamedTuple):
    """Where the options of a configuration came from."""

    sources: Mapping[str, str] = {}  # by option
    file: str | None = None


class Server:
    """One broker in this process. ``start`` it on a running loop; ``stop`` it on the same."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        store: LogStore | None = None,
        snapshots_received: int = 0,
        is_private: bool = False,
        origins: Origins | None = None,
    ) -> None:
        """``snapshots_received``: snapshots installed by this process so far.

        ``is_private``: it is reached by the administrator's socket alone.
        """
        self.config = config
        self.origins = origins or Origins()
        self._is_private = is_private
        self._admin_socket: AdminSocket | None = None
        self.counters = Counters(events=Events((clock or SystemClock()).wall_ms))
        self.addresses = list[Address]()  # where it listens, with the actual ports
        self.skipped = list[Address]()  # default addresses that are in use
        self._clock = clock or SystemClock()
        self._given_store = store
        self._disk = DiskWatch(Path(config.data)) if store is None else None
        self.snapshots_received = snapshots_received
        self._tasks: list[asyncio.Task[None]] = []
        self.replaced = asyncio.Event()  # a snapshot was received: call ``give_way``
        self._listener: Listener | None = None
        self.certificates: Certificates | None = None  # None: nothing is encrypted

    async def start(self) -> None:
        """Open the store, recover, listen. Raises PenstockError, with everything closed again."""
        self.certificates = self._load_certificates()
        self._whole = self._given_store or self._open_store()
        self.store: Store = VisibleStore(self._whole)
        try:
            self.broker = self._make_broker()
            recover(self.store, self.broker)
            self.counters.drops.update(dict.fromkeys(DropReason, 0))  # replay has counted some
            self.broker.groups.redeliveries = 0
            self._build()
            await self.node.start()
            self.parts.pipeline.next_index = self._whole.next_index  # leading took an entry
            self.parts.housekeeping.start()  # before the first client
            self.parts.share_keeper.led(self.parts.cluster.leadership)
            self.parts.schedules.led(self.parts.cluster.leadership)
            check_exposure(self.config, self.broker.access, is_private=self._is_private)
            await self._listen()
            await self._open_admin_socket()
        except BaseException:
            await self.abandon()
            raise
        self.parts.housekeeping.end_own_sessions()
        self._tasks = [asyncio.create_task(self._run_periodic_tasks())]
        self.bridges.led(self.parts.cluster.leadership)
        self._sys_due_at = self._clock.monotonic()

    def _load_certificates(self) -> Certificates | None:
        if not self.config.tls.cert:
            return None
        advertise = self.config.cluster.advertise
        host = parse_listen(advertise).host if advertise else ""
        return Certificates(self.config.tls, host, wall_ms=self._clock.wall_ms)

    def _open_store(self) -> LogStore:
        journal = self.config.journal
        return LmdbStore(
            Path(self.config.data),
            map_bytes=journal.map_bytes_initial,
            block_bytes=journal.block_bytes,
            codec=ZSTD if journal.compression == "zstd" else RAW,
        )

    def _make_broker(self) -> Broker:
        limits = self.config.limits
        return Broker(
            self.counters,
            inflight_max=limits.inflight_max,
            queue_messages_max=limits.queue_messages_max,
            queue_drops_oldest=limits.queue_full == "drop_oldest",
            retained_max=limits.retained_max,
            routes_cached_max=limits.routes_cached_max,
            session_expiry_s=limits.session_expiry_s,
        )

    def _signed_before(self) -> SignedBefore | None:
        """Signatures that must not be accepted again; none without keys."""
        window_ms = self.config.signing.window_s * 1000
        now_ms = self._clock.wall_ms()
        return signed_before(self._whole, now_ms, window_ms) if len(self.broker.keys) else None

    def _is_late(self, batch: Batch) -> bool:
        broker = self.broker
        return is_stale(batch.events, broker.sessions, broker.schedules) or has_stored_number(
            batch.producers, batch.drops, broker.producers
        )

    def _build(self) -> None:
        steady = SteadyClock(self._clock)
        fanout = LiveFanout(self.broker.routes, self.config.journal)
        self.node = Node(
            self.config,
            self._whole,
            self._clock,
            steady,
            pass_on=fanout.pass_on,
            is_late=self._is_late,
            arrived=self.replaced.set,
        )
        self.node.replica.counts.snapshots_received = self.snapshots_received
        self.parts = Assembly(
            config=self.config,
            broker=self.broker,
            store=self.store,
            clock=self._clock,
            counters=self.counters,
            steady=steady,
            fanout=fanout,
            signed=self._signed_before(),
            log=self.node.replica,
            cluster=self.node.replica,
            whole_store=self._whole,
        )
        parts = self.parts
        self.retention = RetentionRunner(
            config=self.config,
            broker=self.broker,
            store=self.store,
            pipeline=parts.pipeline,
            topics=parts.dispatchers.topics,
            clock=self._clock,
            counters=self.counters,
        )
        self._whole.on_removed = self.retention.removed
        self.queues = self._make_queue_admin()
        self.bridges = NodeBridges(
            self.config.bridges, self._broker_id, parts.mqtt_door.accept, self._clock
        )
        self.view = self._make_view(fanout, steady)
        self._sys_topics = SysTopics(
            self.broker, self.store, fanout, self._clock, __version__, self.view.uptime_s
        )
        self._beat = Beat(self._clock)
        self.measurements = Measurements(self.view, self._beat)
        self._http = self._make_http_door()
        self.node.replica.on_leadership(parts.housekeeping.led)
        self.node.replica.on_leadership(parts.logins.led)
        self.node.replica.on_leadership(parts.share_keeper.led)
        self.node.replica.on_leadership(self.bridges.led)
        self.node.replica.on_leadership(parts.schedules.led)
        self._listener = Listener(
            parts.connections,
            self._doors(),
            Bans(self.broker.access),
            self._make_tls_entrance(),
        )

    def _broker_id(self) -> str:
        """The same on all nodes of a cluster, and no other broker's."""
        marker = read_marker(Path(self.config.data)) if self._given_store is None else None
        return self.parts.cluster.status().cluster_id or (marker.store if marker else "memory")

    def _make_queue_admin(self) -> NodeQueueAdmin:
        parts = self.parts
        return NodeQueueAdmin(
            self.broker,
            self.store,
            parts.dispatchers,
            parts.pipeline,
            parts.cluster,
            self._clock,
            parts.audit,
            WorkerLookout(parts.dispatchers, parts.connections),
            parts.steady,
        )

    def _make_view(self, fanout: LiveFanout, steady: SteadyClock) -> NodeView:
        parts = self.parts
        return NodeView(
            broker=self.broker,
            store=self.store,
            pipeline=parts.pipeline,
            feed=parts.feed,
            fanout=fanout,
            connections=parts.connections,
            cluster=parts.cluster,
            gate=parts.gate,
            queues=self.queues,
            steady=steady,
            tls=TlsView(self.certificates, self._tls_listeners),
            bridges=self.bridges,
        )

    def _make_client_admin(self) -> NodeClientAdmin:
        parts = self.parts
        return NodeClientAdmin(
            self.broker,
            parts.connections,
            parts.pipeline,
            parts.feed,
            parts.cluster,
            parts.steady,
            parts.audit,
        )

    def _fault(self) -> str:
        """Why the broker takes no messages now; empty: it does."""
        is_ready, why_not = self.view.ready()
        return "" if is_ready else why_not

    def _make_http_door(self) -> HttpDoor:
        parts, hosts = self.parts, own_names(self.config)
        publisher = NodeTopicPublisher(parts.admission, parts.pipeline, parts.connections)
        served = self._make_api_parts(publisher)
        api = create_api(served, hosts)
        self.node.replica.asking.respond_with(PeerDoor(api, API_BASE).respond)
        app = create_app(
            self.view,
            served.keys,
            queue_admin=served.queues,
            cluster_admin=served.cluster,
            access_admin=served.access,
            tls_admin=NodeTlsAdmin(self.certificates) if self.certificates else None,
            publisher=publisher,
            hosts=hosts,
            guard=served.guard,
            api=api,
        )
        timeout_s = self.config.limits.connect_timeout_s
        return HttpDoor(
            app,
            parts.connections.http_closed,
            entrance=WebSocketEntrance(
                parts.connections,
                parts.mqtt_door.accept,
                lambda: self.config.http.allowed_origins,
                hosts,
            ),
            body_bytes_max=max(
                BODY_BYTES_MAX,
                publisher.payload_bytes_max,
                ACCESS_DOCUMENT_BYTES_MAX,
                MESSAGE_BODY_BYTES_MAX,
            ),
            request_timeout_s=timeout_s,
            keep_alive_s=min(KEEP_ALIVE_S, timeout_s),
        )

    def _make_api_parts(self, publisher: NodeTopicPublisher) -> Parts:
        """What the HTTP pages and the API are made of."""
        parts = self.parts
        return Parts(
            view=self.view,
            guard=Guard(
                self.config.admin.token,
                AccessParts(self.broker.access, parts.logins, parts.admission),
                bootstrap_token(self.config.auth.bootstrap_token_file),
                WebSessions(self._clock),
            ),
            publisher=publisher,
            bridges=self.bridges,
            topics=NodeTopicView(
                self.broker,
                parts.admission,
                parts.feed,
                parts.fanout,
                self.config.journal,
                self._clock.wall_ms,
            ),
            publishing=NodePublishing(
                parts.admission, parts.pipeline, parts.connections, self._fault
            ),
            retained=NodeRetainedAdmin(self.broker, parts.pipeline, parts.connections, parts.audit),
            clients=self._make_client_admin(),
            keys=NodeKeyAdmin(
                self.broker.keys, parts.pipeline, parts.cluster, self._clock, parts.audit
            ),
            queues=self.queues,
            cluster=NodeClusterAdmin(
                parts.cluster,
                self.broker,
                self._whole,
                lambda what: parts.audit.cluster_changed(what, self._clock.wall_ms()),
            ),
            access=NodeAccessAdmin(
                self.config.auth,
                self.broker,
                parts.admission.denials,
                parts.pipeline,
                parts.cluster,
                self._clock,
                parts.audit,
            ),
            schedules=NodeScheduleAdmin(
                self.broker,
                parts.schedules,
                parts.pipeline,
                parts.cluster,
                self._clock,
                parts.audit,
            ),
            nodes=self.node.replica.asking,
            spark=NodeSparkAdmin(
                self.broker,
                parts.dispatchers,
                parts.sinks,
                parts.cluster,
                self._clock,
                parts.audit,
            ),
            counters=self.counters,
            beat=self._beat,
            measurements=self.measurements,
            configured=Configured(lambda: self.config, self.origins.sources, self.origins.file),
            explainer=NodeExplainer(self._explaining()),
        )

    def _explaining(self) -> ExplainingParts:
        parts = self.parts
        return ExplainingParts(
            config=self.config,
            broker=self.broker,
            store=self.store,
            pipeline=parts.pipeline,
            connections=parts.connections,
            dispatchers=parts.dispatchers,
            admission=parts.admission,
            quotas=parts.quotas,
            cluster=parts.cluster,
            clock=self._clock,
            client_events=parts.client_events,
        )

    def _make_tls_entrance(self) -> TlsEntrance | None:
        if self.certificates is None:
            return None
        return TlsEntrance(self.certificates, self.parts.loop, self.counters)

    def _tls_listeners(self) -> list[str]:
        """The listeners that encrypt, as they are configured."""
        modes = {s.address: s.tls_mode(has_certificate=True) for s in wanted(self.config)}
        return [str(address) for address, mode in modes.items() if mode != "off"]

    def _doors(self) -> dict[Protocol, Door]:
        return {
            Protocol.MQTT: self.parts.mqtt_door.accept,
            Protocol.BINARY: self.parts.binary_door.accept,
            Protocol.RESP: self.parts.resp_door.accept,
            Protocol.QUEUE: self.parts.queue_door.accept,
            Protocol.HTTP: self._http_door,
        }

    def _http_door(self, transport: asyncio.Transport, data: bytes, origin: Origin) -> None:
        self.parts.connections.http.add(transport)
        self._http.accept(transport, data, origin)

    async def _listen(self) -> None:
        assert self._listener is not None
        for settings in [] if self._is_private else wanted(self.config):
            try:
                self.addresses.append(await self._listener.listen(settings))
            except Refused as error:
                if settings.is_required:
                    raise
                self.skipped.append(settings.address)
                _log.warning("address_skipped", address=str(settings.address), error=error.message)

    async def _open_admin_socket(self) -> None:
        if self._given_store is not None:
            return  # it may be in memory: there is no directory
        directory = Path(self.config.data)
        self._admin_socket = AdminSocket(directory, self._http_door, self._clock.monotonic)
        try:
            await self._admin_socket.listen()
        except OSError as error:
            if self._is_private:
                raise
            _log.warning("admin_socket_failed", path=str(self._admin_socket.path), error=str(error))

    # ── periodic tasks ────────────────────────────────────────────────────────────────────────

    async def _run_periodic_tasks(self) -> None:
        while True:
            stalled_s = self.parts.connections.stalls.beat(TURN_S)
            try:
                if stalled_s:
                    self._forgive(stalled_s)
                else:
                    self.turn()
            except Exception:  # noqa: BLE001 - must not stop the periodic tasks
                _log.exception("turn_failed")
            await asyncio.sleep(TURN_S)

    def _forgive(self, stalled_s: float) -> None:
        """The process was stopped: do not count that as silence of clients; read input first."""
        _log.warning("stalled", seconds=round(stalled_s, 1))
        assert self._listener is not None
        self._listener.forgive(stalled_s)
        self.parts.connections.forgive(stalled_s)

    def turn(self) -> None:
        """Run periodic tasks: deadlines, expiry, $SYS, retention, checkpoint."""
        now = self._clock.monotonic()
        self.parts.connections.turn(now)
        if self.certificates is not None:
            self.certificates.turn()
        if self._disk is not None:
            self._disk.turn(now)
        self.measurements.turn()
        self.parts.mqtt_door.turn(now)
        self.parts.housekeeping.turn()
        self.parts.schedules.turn()
        self.parts.audit.turn(self._clock.wall_ms())
        self.parts.client_events.turn()
        self.parts.pipeline.turn()
        interval_s = self.config.sys.interval_s
        if interval_s and now >= self._sys_due_at:
            self._sys_due_at = now + interval_s
            self._sys_topics.publish()
        if self.retention.turn(now):
            self.parts.dispatchers.turn()
            self.parts.sinks.turn()

    def reconfigure(self, config: Config, names: list[str]) -> None:
        """Take some options of another configuration; all are in ``config.reloading.LIVE``."""
        self.config = with_changes(self.config, config, names)
        connections = self.parts.connections
        connections.visitors.limits = connections.limits = self.config.limits

    # ── stop ──────────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> bool:
        """Stop within the configured time; return whether everything accepted is committed."""
        assert self._listener is not None
        self._listener.stop_accepting()
        self.bridges.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.shutdown.timeout_s):
                self._pause_clients()
                self.parts.audit.finish(self._clock.wall_ms())
                self.parts.client_events.finish()
                await self.parts.pipeline.drain()
                await self.node.hand_over()
                await self._end_streams()
                self._close_clients()
                await self.parts.pipeline.drain()
                await self._until_closed()
        is_kept = self.parts.pipeline.is_idle
        await self.abandon()
        return is_kept

    async def give_way(self) -> None:
        """Stop and install the snapshot that was received; clients reconnect to another node.

        This node is far behind, so nothing of its own is worth waiting for.
        """
        node_id = self.node.replica.node_id
        assert self._listener is not None
        self._listener.stop_accepting()
        self._close_clients()
        await asyncio.sleep(0)  # write the last bytes
        await self.abandon()
        install(Path(self.config.data), node_id)

    def _pause_clients(self) -> None:
        """Stop reading, or clients that keep publishing would prevent ``drain``."""
        self.parts.connections.is_stopping = True
        for client in list(self.parts.connections.clients):
            client.pause()

    async def _end_streams(self) -> None:
        """Let event streams say that they end; one that is not read has a deadline."""
        self._beat.close()
        deadline = self.parts.loop.time() + STREAMS_END_S
        while self._http.streams and self.parts.loop.time() < deadline:
            self._beat.strike()
            await asyncio.sleep(0.01)

    def _close_clients(self) -> None:
        for client in list(self.parts.connections.clients):
            client.close(DisconnectReason.SERVER_SHUTDOWN)
        self._http.close_all()

    async def _until_closed(self) -> None:
        """Wait until clients have read their last bytes; slow ones have a deadline."""
        told_at = self.parts.loop.time() + STOP_TOLD_S
        while clients := self.parts.connections.clients:
            self.parts.connections.deadlines.turn(self._clock.monotonic())
            if self.parts.loop.time() >= told_at:
                told_at = inf
                names = ", ".join(printable(one.name) or one.peer for one in islice(clients, 3))
                _log.warning("stop_waits_for_readers", count=len(clients), clients=names)
            await asyncio.sleep(0.01)

    async def abandon(self) -> None:
        """Close everything at once, as a crash would; what is not committed is lost."""
        if self._admin_socket is not None:
            self._admin_socket.close()
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self.bridges.stop()
            self._listener.stop_accepting()
            self._listener.abort_undetected()
            if self._listener.tls is not None:
                self._listener.tls.close()
            self.parts.connections.abort_all()
            self._beat.close()
            self.measurements.close()
            await self.node.stop()
            self.parts.close()
        self.store.close()
