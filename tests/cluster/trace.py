"""What one node wrote, flushed, received and sent, in the order of its system calls (strace).

The steps of a commit are those of ``tests.e2e.test_acknowledgement_order``: pages are written, a
flush that began after that returns, then the page that makes it count is written, and a flush that
began after that returns.

A trace begins in the middle of a node's incarnation. Which descriptors are files is given; which
ones lead to other nodes is seen by what is said on them.
"""

import re
from collections.abc import Iterable

from penstock.cluster.frames import Frame, RaftFrame, decode_frame
from penstock.errors import RemoteProtocolError
from penstock.raft.types import MessageKind, RaftMessage
from tests.e2e.test_acknowledgement_order import FLUSHES, MARKER, data_of, is_meta

__all__ = ["TRACED", "NodeTrace"]

TRACED = (
    "fdatasync,fsync,msync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,"
    "read,readv,recvfrom,recvmsg,close"
)
RECEIVES = {"read", "readv", "recvfrom", "recvmsg"}
MAC_BYTES = 16
PUBACK = re.compile(rb"\x40\x02(..)", re.DOTALL)
LINE = re.compile(r"^(\d+) +([\d.]+) (?:<\.\.\. (\w+) resumed>|(\w+)\((\d+)?)(.*)$")


class _Stream:
    """Frames in one direction of a connection, from where the trace begins."""

    def __init__(self) -> None:
        self._data = b""
        self.is_peer: bool | None = None

    def add(self, data: bytes) -> list[Frame]:
        """The frames that are complete now; none, ever, if this is not a way between nodes."""
        if self.is_peer is False:
            return []
        self._data += data
        found = []
        while len(self._data) >= 4:
            length = int.from_bytes(self._data[:4], "little")
            if self.is_peer is None and length > len(self._data):
                self.is_peer = False
                return []
            if len(self._data) < 4 + length + MAC_BYTES:
                break
            payload = self._data[4 : 4 + length]
            self._data = self._data[4 + length + MAC_BYTES :]
            frame = _frame(payload)
            self.is_peer = bool(self.is_peer) or frame is not None
            if frame is not None:
                found.append(frame)
        return found


def _frame(payload: bytes) -> Frame | None:
    try:
        return decode_frame(payload)
    except RemoteProtocolError:
        return None  # a handshake, or no frame at all


class NodeTrace:
    """Takes the lines of a node's trace one by one."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files = set(files)
        self._unfinished: dict[str, tuple[str, str, str]] = {}
        self._streams: dict[tuple[str, bool], _Stream] = {}
        self._written: set[int] = set()
        self._flushing: dict[str, tuple[tuple[set[int], int], tuple[set[int], int]]] = {}
        self._flushed: tuple[set[int], int] = set(), 0
        """Markers and the term that are on disk."""
        self._counted: tuple[set[int], int] = set(), 0
        """The same, of transactions whose meta page was written since."""
        self._heard_term = 0
        self.committed: dict[int, float] = {}
        """Marker → when the disk had it."""
        self.committed_term = 0
        """Something was committed after the last message of this term."""
        self.acknowledged: list[tuple[int, float]] = []
        """Packet id of each PUBACK, and when it left."""
        self.responses: list[tuple[int, frozenset[int]]] = []
        """Index up to which an append was confirmed, and the markers that were on disk then."""
        self.votes: list[tuple[int, int]] = []
        """Term of each vote given, and the committed term then."""

    def line(self, text: str) -> None:
        """Take a line: what is said counts when it begins, all else when it returns."""
        if not (match := LINE.match(text)):
            return
        thread, at, resumed, call, descriptor, rest = match.groups()
        if resumed:
            call, descriptor, begun = self._unfinished.pop(thread, ("", "", ""))
            if is_meta(call, begun):
                rest = begun
        else:
            descriptor = descriptor or ""
            self._begin(thread, call, descriptor, rest, float(at))
            if rest.endswith("<unfinished ...>"):
                self._unfinished[thread] = (call, descriptor, rest)
                return
        self._end(thread, call, descriptor, rest, float(at))

    def _begin(self, thread: str, call: str, descriptor: str, rest: str, at: float) -> None:
        if call in FLUSHES:
            self._flushing[thread] = (set(self._written), self._heard_term), self._counted
        elif descriptor in self._files:
            self._written |= {int(number) for number in MARKER.findall(data_of(rest))}
        elif call == "close":
            self._streams.pop((descriptor, True), None)
            self._streams.pop((descriptor, False), None)
        elif call not in RECEIVES:
            self._say(descriptor, data_of(rest), at)

    def _end(self, thread: str, call: str, descriptor: str, rest: str, at: float) -> None:
        if call in FLUSHES:
            nothing: tuple[set[int], int] = set(), 0
            flushed, (durable, term) = self._flushing.pop(thread, (nothing, nothing))
            self._flushed = self._flushed[0] | flushed[0], max(self._flushed[1], flushed[1])
            for number in durable - self.committed.keys():
                self.committed[number] = at
            self.committed_term = max(self.committed_term, term)
        elif is_meta(call, rest):
            self._counted = self._flushed
        elif call in RECEIVES:
            for message in self._messages(descriptor, True, data_of(rest)):
                self._heard_term = max(self._heard_term, message.term)

    def _messages(self, descriptor: str, inwards: bool, data: bytes) -> list[RaftMessage]:
        stream = self._streams.setdefault((descriptor, inwards), _Stream())
        frames = stream.add(data)
        return [frame.message for frame in frames if isinstance(frame, RaftFrame)]

    def _say(self, descriptor: str, data: bytes, at: float) -> None:
        for message in self._messages(descriptor, False, data):
            if message.kind is MessageKind.APPEND_RESPONSE and not message.reject:
                self.responses.append((message.index, frozenset(self.committed)))
            elif message.kind is MessageKind.VOTE_RESPONSE and not message.reject:
                self.votes.append((message.term, self.committed_term))
        if self._streams[descriptor, False].is_peer is False:
            for identifier in PUBACK.findall(data):
                self.acknowledged.append((int.from_bytes(identifier, "big"), at))
