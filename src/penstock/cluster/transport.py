"""The transport between nodes: sockets below, frames above. The ``Peers`` of a replica.

Every node dials every other, once for control and once for bulk, and sends only on connections that
it made; on those that others made it receives. Each snapshot has a connection of its own. ::

    send ─► PeerLink (queue, connection) ─► │ network │ ─► PeerListener (handshake) ─► received

A node that is behind in the journal does not know the newest members, one of which may be the
leader. So any node that proves to be of this cluster is heard, and answered at the address that it
gives; ``admits`` may be stricter.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.cluster.dialing import PeerDialer
from penstock.cluster.faults import PeerFault
from penstock.cluster.frames import Frame, Member, RaftFrame, decode_frame, encode_frame, is_bulk
from penstock.cluster.handshake import ANSWERS, Hello, Identity, PeerSession, Purpose
from penstock.cluster.peer_connection import PeerConnection
from penstock.cluster.peer_link import PeerLink
from penstock.cluster.peer_listener import PeerListener
from penstock.cluster.peer_stats import PeerStats, TransportStats
from penstock.cluster.security import PeerSecurity
from penstock.cluster.snapshots import Snapshots
from penstock.config.address import Address
from penstock.config.digest import differing
from penstock.errors import RemoteProtocolError
from penstock.obs.log import ThrottledLogger, get_logger
from penstock.obs.reasons import PeerReason
from penstock.raft.types import MessageKind, NodeId, RaftMessage

NON_MEMBERS_MAX = 16  # nodes that are heard although this node does not know them as members
LINGER_S = 10.0  # how long connections to a removed node stay open: it has to hear of its removal

_LINKS = (Purpose.CONTROL, Purpose.BULK)
_QUIET_ENDS = {PeerReason.NODE_STOPPED, PeerReason.REPLACED}  # not logged


class FrameReceiver(Protocol):
    """Receives from the transport, on the event loop."""

    def received(self, sender: NodeId, frame: Frame) -> None: ...

    def unreachable(self, peer: NodeId) -> None:
        """A frame for this node was dropped, or its connection was lost."""


class Transport:
    """All connections to other nodes. Belongs to the event loop.

    ``identity`` is called at each handshake, since a node learns late which cluster it is in.
    ``roll(n)`` gives a random number below n. ``snapshots`` is set before the start.
    """

    snapshots: Snapshots | None = None

    def __init__(
        self,
        *,
        identity: Callable[[], Identity],
        security: PeerSecurity,
        receiver: FrameReceiver,
        roll: Callable[[int], int],
        admits: Callable[[NodeId], bool] = lambda _node: True,
    ) -> None:
        self.stats = TransportStats()
        self.dialer = PeerDialer(identity, security)
        self._identity = identity
        self._security = security
        self._receiver = receiver
        self._roll = roll
        self._admits = admits
        self._listener = PeerListener(self, identity, security)
        self._links: dict[tuple[NodeId, Purpose], PeerLink] = {}
        self._members: dict[NodeId, str] = {}  # addresses
        self._non_members: dict[NodeId, str] = {}
        self._moved: dict[NodeId, str] = {}  # newer addresses of members than the journal has
        self._unreachable: set[NodeId] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._log = get_logger("cluster")
        self._throttled_log = ThrottledLogger(self._log)

    async def start(self, listen: Address) -> Address:
        address = await self._listener.listen(listen)
        if self.snapshots is not None:
            self.snapshots.start()
        if self._security.is_open:
            self._log.warning(
                "peers_not_authenticated",
                listen=str(address),
                advice="Anybody on this machine can pose as a node. Set cluster.secret_file.",
            )
        return address

    async def stop(self) -> None:
        self._is_stopped = True
        await self._listener.stop()
        if self.snapshots is not None:
            await self.snapshots.stop()
        links = list(self._links.values())
        self._links.clear()
        await asyncio.gather(*(link.stop() for link in links), *self._stopping)

    # ── Sending ───────────────────────────────────────────────────────────────────────────────

    def send(self, to: NodeId, frame: Frame) -> None:
        if self._is_stopped:
            return
        if isinstance(frame, RaftFrame) and frame.message.kind is MessageKind.SNAPSHOT:
            self._send_snapshot(to, frame.message)
            return
        link = self._link(to, Purpose.BULK if is_bulk(frame) else Purpose.CONTROL)
        if link is None or not link.send(encode_frame(frame)):
            self._report_unreachable(to)

    def set_members(self, members: Mapping[NodeId, Member]) -> None:
        """Connect to these nodes. Connections to others end after ``LINGER_S``."""
        me = self._identity().node_id
        found = {m.id: m.peer_addr for m in members.values() if m.peer_addr and m.id != me}
        gone = self._members.keys() - found.keys()
        others = self._non_members | {node: self._members[node] for node in gone}
        self._non_members = {node: at for node, at in others.items() if node not in found}
        old, self._members = self._members, found
        self._moved = {n: at for n, at in self._moved.items() if found.get(n) == old.get(n)}
        for node in found:
            for purpose in _LINKS:
                self._link(node, purpose)
        if gone:
            asyncio.get_running_loop().call_later(LINGER_S, self._disconnect, gone)

    def is_connected(self, node: NodeId) -> bool:
        link = self._links.get((node, Purpose.CONTROL))
        return link is not None and link.is_open

    def is_reached(self, node: NodeId) -> bool:
        """Whether there is a connection for batches and questions."""
        link = self._links.get((node, Purpose.BULK))
        return link is not None and link.is_open

    def answers(self, node: NodeId) -> bool:
        """Whether the program of a node answers questions."""
        link = self._links.get((node, Purpose.BULK))
        return link is not None and bool(link.features & ANSWERS)

    def _send_snapshot(self, to: NodeId, message: RaftMessage) -> None:
        """Always report the end: until then the core sends that node nothing else."""
        if self.snapshots is None:
            self._report_unreachable(to)
        else:
            self.snapshots.sender.start(to, self._address(to), message)

    def _address(self, node: NodeId) -> str:
        return self._moved.get(node) or self._members.get(node) or self._non_members.get(node, "")

    def _link(self, node: NodeId, purpose: Purpose) -> PeerLink | None:
        """The link to a node, directed to its current address; None if that is unknown."""
        address = self._address(node)
        if not address:
            return None
        link = self._links.get((node, purpose))
        if link is None:
            link = self._links[node, purpose] = PeerLink(
                self, node, purpose, self.dialer, self._roll
            )
        link.connect_to(address)
        return link

    def _disconnect(self, nodes: set[NodeId]) -> None:
        """Close the links to nodes, unless they have become members again."""
        if self._is_stopped:
            return
        for node in nodes - self._members.keys():
            self._non_members.pop(node, None)
            for purpose in _LINKS:
                link = self._links.pop((node, purpose), None)
                if link is not None:
                    task = asyncio.get_running_loop().create_task(link.stop())
                    self._stopping.add(task)
                    task.add_done_callback(self._stopping.discard)

    # ── Events of links ───────────────────────────────────────────────────────────────────────

    def link_opened(self, node: NodeId, session: PeerSession) -> None:
        self.stats.of(node).trouble = ""
        self._log.info("peer_connected", node=node, purpose=session.purpose.name.lower())

    def link_ended(self, node: NodeId, fault: PeerFault) -> None:
        """Count every attempt, but log a trouble once: a node may be away for days."""
        stats, trouble = self.stats.of(node), f"{fault.message} ({fault.reason.value})"
        if trouble == stats.trouble:
            self.stats.ends[fault.reason] += 1
        else:
            self._count(fault, node=node)
        stats.trouble = trouble
        self._report_unreachable(node)

    def _report_unreachable(self, node: NodeId) -> None:
        """Report once, in a later iteration of the loop: the caller is busy sending."""
        if not self._unreachable:
            asyncio.get_running_loop().call_soon(self._flush_unreachable)
        self._unreachable.add(node)

    def _flush_unreachable(self) -> None:
        nodes, self._unreachable = self._unreachable, set()
        for node in nodes:
            if not self._is_stopped:
                self._receiver.unreachable(node)

    def _count(self, fault: PeerFault, **values: object) -> None:
        self.stats.ends[fault.reason] += 1
        if fault.reason not in _QUIET_ENDS:
            self._throttled_log.info(
                "peer_parted",
                fault.reason.value,
                reason=fault.reason.value,
                detail=fault.message,
                advice=fault.advice,
                **values,
            )

    # ── Events of the listener ────────────────────────────────────────────────────────────────

    def admit(self, hello: Hello) -> None:
        node = hello.node_id
        self._compare_settings(hello)
        if not self._admits(node):
            raise PeerFault(
                PeerReason.UNKNOWN_NODE,
                f"node {node} is not part of the cluster",
                "If it was removed, stop it.",
            )
        if node not in self._members and node not in self._non_members:
            if len(self._non_members) >= NON_MEMBERS_MAX:
                raise PeerFault(
                    PeerReason.UNKNOWN_NODE,
                    f"node {node} is no member, and {NON_MEMBERS_MAX} others that are none are"
                    " connected",
                )
            self._non_members[node] = hello.address
            asyncio.get_running_loop().call_later(LINGER_S, self._forget_if_silent, node)

    def _forget_if_silent(self, node: NodeId) -> None:
        """Forget a node that is no member and has gone silent: there is room for few."""
        loop = asyncio.get_running_loop()
        if node not in self._non_members or self._is_stopped:
            return
        if loop.time() - self.stats.of(node).last_contact >= LINGER_S:
            self._disconnect({node})
        else:
            loop.call_later(LINGER_S, self._forget_if_silent, node)

    def _compare_settings(self, hello: Hello) -> None:
        """Refuse a node that would derive another state from the same journal."""
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
            "Give all nodes the same settings, and restart those that had others.",
        )

    def arrived(self, session: PeerSession) -> None:
        """A node has connected: it is up, so links to it need not wait for their next attempt."""
        node = session.node_id
        self._touch(node)
        if session.address:
            self._found_at(node, session.address)
        for purpose in _LINKS:
            link = self._links.get((node, purpose))
            if link is not None:
                link.renew(session.incarnation)

    def _found_at(self, node: NodeId, address: str) -> None:
        """Send to the address that a node gives; the journal may not have it yet."""
        if node in self._non_members:
            self._non_members[node] = address
        elif node in self._members:
            self._moved[node] = address
            for purpose in _LINKS:
                self._link(node, purpose)

    def received(self, connection: PeerConnection, payload: bytes) -> None:
        session = connection.session
        assert session is not None
        stats = self._touch(session.node_id)
        stats.frames_in += 1
        stats.bytes_in += len(payload)
        if session.purpose is not Purpose.SNAPSHOT:
            self._receiver.received(session.node_id, _frame(session.node_id, payload))
        elif self.snapshots is not None:
            self.snapshots.receiver.received(connection, payload)
        else:
            raise PeerFault(PeerReason.MALFORMED_FRAME, "this node takes no snapshots")

    def ended(self, connection: PeerConnection, fault: PeerFault) -> None:
        session = connection.session
        if session is None:
            self._count(fault, peer=connection.peer)
            return
        self._count(fault, node=session.node_id)
        if session.purpose is Purpose.SNAPSHOT and self.snapshots is not None:
            self.snapshots.receiver.ended(connection)

    def _touch(self, node: NodeId) -> PeerStats:
        stats = self.stats.of(node)
        stats.last_contact = asyncio.get_running_loop().time()
        return stats


def _frame(sender: NodeId, payload: bytes) -> Frame:
    """Decode a frame that this sender may send; raises PeerFault."""
    try:
        frame = decode_frame(payload)
    except (RemoteProtocolError, UnicodeDecodeError) as error:
        raise PeerFault(PeerReason.MALFORMED_FRAME, str(error)) from error
    if isinstance(frame, RaftFrame) and frame.message.sender != sender:
        raise PeerFault(
            PeerReason.MALFORMED_FRAME, f"node {sender} sends in the name of {frame.message.sender}"
        )
    return frame
