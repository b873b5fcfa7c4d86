"""The way between nodes: sockets below, frames above. The ``Peers`` of a replica.

Every node dials every other that it knows, once for control and once for bulk, and speaks only on
connections that it made; on those that others made it listens. So there is no question of who may
close or reuse what, and a link that is cut in one direction only is just that. Snapshots go over
connections made for one each (:mod:`penstock.cluster.snapshots`).

::

    send ─► PeerLink (queue, connection) ─► │ network │ ─► PeerListener (handshake) ─► received

Who is in is a matter of the journal, and a node that is behind in it does not know the newest
members yet, of whom one may be the leader. So whoever proves to be of this cluster is heard as a
guest, and answered where he says that he is to be found; ``admits`` may be stricter.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.frames import Frame, Member, RaftFrame, decode_frame, encode_frame, is_bulk
from penstock.cluster.handshake import Hello, Identity, PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_link import PeerLink
from penstock.cluster.peer_listener import PeerListener
from penstock.cluster.peer_stats import PeerStats, TransportStats
from penstock.cluster.security import PeerSecurity
from penstock.config.address import Address
from penstock.config.digest import differing
from penstock.errors import RemoteProtocolError
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.reasons import PeerReason
from penstock.raft.types import MessageKind, NodeId, RaftMessage

GUESTS_MAX = 16
"""Nodes that are heard although they are no members that we know of."""
LINGER_S = 10.0
"""How long connections to a node stay that is no member any more: it is to be told."""

_QUIET_ENDS = {PeerReason.NODE_STOPPED, PeerReason.REPLACED}
"""Ends that are not worth a line."""


class FrameReceiver(Protocol):
    """What the transport tells the replica, on the event loop."""

    def received(self, sender: NodeId, frame: Frame) -> None:
        """A frame came from a node that has proven to be ``sender``."""
        ...

    def unreachable(self, node: NodeId) -> None:
        """Something for this node was dropped, or its connection was lost."""
        ...


class SnapshotDesk(Protocol):
    """Who sends and takes snapshots; see :mod:`penstock.cluster.snapshots`."""

    def start(self, node: NodeId, address: str, message: RaftMessage) -> None:
        """Send one."""
        ...

    def received(self, link: PeerConnection, payload: bytes) -> None:
        """A frame of one that comes in. May raise PeerFault."""
        ...

    def ended(self, link: PeerConnection) -> None:
        """The connection of one that comes in is over."""
        ...

    async def stop(self) -> None:
        """Stop what is under way."""
        ...


class Transport:
    """All connections to other nodes. Use it on the event loop only.

    ``identity`` is asked at each handshake, since a node learns late of which cluster it is.
    ``roll(n)`` gives a random number below n. ``snapshots`` is set before the start.
    """

    def __init__(
        self,
        *,
        identity: Callable[[], Identity],
        security: PeerSecurity,
        inbox: FrameReceiver,
        roll: Callable[[int], int],
        admits: Callable[[NodeId], bool] = lambda _node: True,
    ) -> None:
        self.stats = TransportStats()
        self.dialer = PeerDialer(identity, security)
        self.snapshots: SnapshotDesk | None = None
        self._identity = identity
        self._security = security
        self._inbox = inbox
        self._roll = roll
        self._admits = admits
        self._doorway = PeerListener(self, identity, security)
        self._lanes: dict[tuple[NodeId, Purpose], PeerLink] = {}
        self._members: dict[NodeId, str] = {}
        self._guests: dict[NodeId, str] = {}
        """Where those are found who are no members (or no more)."""
        self._moved: dict[NodeId, str] = {}
        """Where members are who said so last; where they are by the journal may be out of date."""
        self._unreachable: set[NodeId] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._log = get_logger("cluster")
        self._complaints = ThrottledLogger(self._log)

    async def start(self, listen: Address) -> Address:
        """Listen for other nodes; return the address with the port that was really taken."""
        address = await self._doorway.listen(listen)
        if self._security.is_open:
            self._log.warning(
                "peers_not_authenticated",
                listen=str(address),
                advice="Anybody on this machine can pose as a node. Set cluster.secret_file.",
            )
        return address

    async def stop(self) -> None:
        """Close everything. Nothing is sent or received afterwards."""
        self._is_stopped = True
        await self._doorway.stop()
        if self.snapshots is not None:
            await self.snapshots.stop()
        lanes = list(self._lanes.values())
        self._lanes.clear()
        await asyncio.gather(*(lane.stop() for lane in lanes), *self._stopping)

    # ── Peers ─────────────────────────────────────────────────────────────────────────────────

    def send(self, to: NodeId, frame: Frame) -> None:
        """Send a frame, or drop it and call ``FrameReceiver.unreachable`` later."""
        if self._is_stopped:
            return
        if isinstance(frame, RaftFrame) and frame.message.kind is MessageKind.SNAPSHOT:
            self._send_snapshot(to, frame.message)
            return
        lane = self._lane(to, Purpose.BULK if is_bulk(frame) else Purpose.CONTROL)
        if lane is None or not lane.send(encode_frame(frame)):
            self._tell_unreachable(to)

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Be connected to these nodes. Connections to others end, after a little while."""
        me = self._identity().node_id
        found = {m.id: m.peer_addr for m in members.values() if m.peer_addr and m.id != me}
        gone = self._members.keys() - found.keys()
        self._guests = {
            node: address
            for node, address in (self._guests | {n: self._members[n] for n in gone}).items()
            if node not in found
        }
        old, self._members = self._members, found
        self._moved = {n: at for n, at in self._moved.items() if found.get(n) == old.get(n)}
        for node in found:
            self._lane(node, Purpose.CONTROL)
            self._lane(node, Purpose.BULK)
        if gone:
            asyncio.get_running_loop().call_later(LINGER_S, self._leave, gone)

    def is_connected(self, node: NodeId) -> bool:
        """Whether control frames reach a node at the moment, as far as we know."""
        lane = self._lanes.get((node, Purpose.CONTROL))
        return lane is not None and lane.is_open

    def _send_snapshot(self, to: NodeId, message: RaftMessage) -> None:
        """Always with a report at the end: until then the core sends that node nothing else."""
        if self.snapshots is None:
            self._tell_unreachable(to)
        else:
            self.snapshots.start(to, self._address(to), message)

    def _address(self, node: NodeId) -> str:
        return self._moved.get(node) or self._members.get(node) or self._guests.get(node, "")

    def _lane(self, node: NodeId, purpose: Purpose) -> PeerLink | None:
        """The lane to a node, heading for where it is now; None if nobody knows where."""
        address = self._address(node)
        if not address:
            return None
        lane = self._lanes.get((node, purpose))
        if lane is None:
            lane = self._lanes[node, purpose] = PeerLink(
                node,
                purpose,
                self.dialer,
                stats=self.stats.of(node),
                roll=self._roll,
                connected=self._connected,
                ended=self._parted,
            )
        lane.head_for(address)
        return lane

    def _leave(self, nodes: set[NodeId]) -> None:
        """Let go of nodes that are no members, unless they have become members again."""
        if self._is_stopped:
            return
        for node in nodes - self._members.keys():
            self._guests.pop(node, None)
            for purpose in (Purpose.CONTROL, Purpose.BULK):
                lane = self._lanes.pop((node, purpose), None)
                if lane is not None:
                    task = asyncio.get_running_loop().create_task(lane.stop())
                    self._stopping.add(task)
                    task.add_done_callback(self._stopping.discard)

    def _connected(self, node: NodeId, session: PeerSession) -> None:
        self.stats.of(node).trouble = ""
        self._log.info("peer_connected", node=node, purpose=session.purpose.name.lower())

    def _parted(self, node: NodeId, fault: PeerFault) -> None:
        """Count every attempt, and log a trouble once: a node that is away is tried for days."""
        stats, trouble = self.stats.of(node), f"{fault.message} ({fault.reason.value})"
        if trouble == stats.trouble:
            self.stats.ends[fault.reason] += 1
        else:
            self._count(fault, node=node)
        stats.trouble = trouble
        self._tell_unreachable(node)

    def _tell_unreachable(self, node: NodeId) -> None:
        """Tell it in a turn of its own, and once: whoever sends is in the middle of something."""
        if not self._unreachable:
            asyncio.get_running_loop().call_soon(self._flush_unreachable)
        self._unreachable.add(node)

    def _flush_unreachable(self) -> None:
        nodes, self._unreachable = self._unreachable, set()
        for node in nodes:
            if not self._is_stopped:
                self._inbox.unreachable(node)

    def _count(self, fault: PeerFault, **values: object) -> None:
        self.stats.ends[fault.reason] += 1
        if fault.reason not in _QUIET_ENDS:
            self._complaints.info(
                "peer_parted",
                fault.reason.value,
                reason=fault.reason.value,
                detail=fault.message,
                advice=fault.advice,
                **values,
            )

    # ── What the doorway tells ────────────────────────────────────────────────────────────────

    def admit(self, hello: Hello) -> None:
        node = hello.node_id
        self._compare_settings(hello)
        if not self._admits(node):
            raise PeerFault(
                PeerReason.UNKNOWN_NODE,
                f"node {node} is not part of the cluster",
                "If it was removed, stop it.",
            )
        if node not in self._members and node not in self._guests:
            if len(self._guests) >= GUESTS_MAX:
                raise PeerFault(
                    PeerReason.UNKNOWN_NODE,
                    f"node {node} is no member, and {GUESTS_MAX} others who are none are here",
                )
            self._guests[node] = hello.address
            asyncio.get_running_loop().call_later(LINGER_S, self._look_after, node)

    def _look_after(self, guest: NodeId) -> None:
        """Forget a guest that says nothing any more: there is room for few."""
        loop = asyncio.get_running_loop()
        if guest not in self._guests or self._is_stopped:
            return
        if loop.time() - self.stats.of(guest).last_contact >= LINGER_S:
            self._leave({guest})
        else:
            loop.call_later(LINGER_S, self._look_after, guest)

    def _compare_settings(self, hello: Hello) -> None:
        """Turn away who would come to another state by the same journal."""
        node = hello.node_id
        self.stats.differing.pop(node, None)
        names = differing(self._identity().settings, hello.settings)
        if not names:
            return
        if node in self._members:
            self.stats.differing[node] = names
        raise PeerFault(
            PeerReason.WRONG_SETTINGS,
            f"node {node} differs from node {self._identity().node_id} in {', '.join(names)}",
            "Give all nodes the same, and restart those that had others.",
        )

    def arrived(self, session: PeerSession) -> None:
        """See ``Guests``: it is alive, so what waits for it need not wait any longer."""
        node = session.node_id
        self._touch(node)
        if session.address:
            self._found_at(node, session.address)
        for purpose in (Purpose.CONTROL, Purpose.BULK):
            lane = self._lanes.get((node, purpose))
            if lane is not None:
                lane.renew(session.incarnation)

    def _found_at(self, node: NodeId, address: str) -> None:
        """Speak to a node where it says that it is; the journal may not say so yet."""
        if node in self._guests:
            self._guests[node] = address
        elif node in self._members:
            self._moved[node] = address
            for purpose in (Purpose.CONTROL, Purpose.BULK):
                self._lane(node, purpose)

    def received(self, link: PeerConnection, payload: bytes) -> None:
        session = link.session
        assert session is not None
        stats = self._touch(session.node_id)
        stats.frames_in += 1
        stats.bytes_in += len(payload)
        if session.purpose is not Purpose.SNAPSHOT:
            self._inbox.received(session.node_id, _frame(session.node_id, payload))
        elif self.snapshots is not None:
            self.snapshots.received(link, payload)
        else:
            raise PeerFault(PeerReason.MALFORMED_FRAME, "this node takes no snapshots")

    def writable(self, link: PeerConnection) -> None:
        """See ``Guests``: what is sent there is one short answer."""

    def ended(self, link: PeerConnection, fault: PeerFault) -> None:
        session = link.session
        if session is None:
            self._count(fault, peer=link.peer)
            return
        self._count(fault, node=session.node_id)
        if session.purpose is Purpose.SNAPSHOT and self.snapshots is not None:
            self.snapshots.ended(link)

    def _touch(self, node: NodeId) -> PeerStats:
        stats = self.stats.of(node)
        stats.last_contact = asyncio.get_running_loop().time()
        return stats


def _frame(sender: NodeId, payload: bytes) -> Frame:
    """The frame in a payload, if it is one that this sender may send; raises PeerFault."""
    try:
        frame = decode_frame(payload)
    except (RemoteProtocolError, UnicodeDecodeError) as error:
        raise PeerFault(PeerReason.MALFORMED_FRAME, str(error)) from error
    if isinstance(frame, RaftFrame) and frame.message.sender != sender:
        raise PeerFault(
            PeerReason.MALFORMED_FRAME, f"node {sender} speaks for node {frame.message.sender}"
        )
    return frame
