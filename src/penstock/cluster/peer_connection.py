"""One connection between two nodes: handshake, then frames. The same for both sides.

It has no policy: its owner supplies the handshake, and hears when it is open, when a frame arrives,
when the socket takes more, and once, why it ended.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from penstock.cluster.faults import PeerFault
from penstock.cluster.frames import FRAME_BYTES_MAX
from penstock.cluster.framing import PeerFrameReader, PeerFrameWriter
from penstock.cluster.handshake import HANDSHAKE_BYTES_MAX, Answerer, Dialer, PeerSession, Purpose
from penstock.cluster.security import Certificate
from penstock.limits import KIB, MIB
from penstock.obs.reasons import PeerReason

HANDSHAKE_S = 5.0  # how long the other side may take to authenticate

FRAME_BYTES_MAX_BY_PURPOSE = {
    Purpose.CONTROL: 256 * KIB,
    Purpose.BULK: FRAME_BYTES_MAX,
    Purpose.SNAPSHOT: MIB + 4 * KIB,
}

SOCKET_BUFFER_BYTES_MAX = 256 * KIB  # beyond what the kernel takes; the rest waits in the link

IDLE_S, PROBE_S, PROBES = 5, 2, 3
SILENCE_MS = 6_000
"""The kernel probes an idle connection, and drops one whose data is not acknowledged."""


class PeerConnectionOwner(Protocol):
    """Receives the events of a connection."""

    def opened(self, connection: "PeerConnection", session: PeerSession) -> None:
        """Both sides are authenticated."""

    def received(self, connection: "PeerConnection", payload: bytes) -> None:
        """A frame arrived. May raise PeerFault, which ends the connection."""

    def writable(self, connection: "PeerConnection") -> None: ...

    def ended(self, connection: "PeerConnection", fault: PeerFault) -> None: ...


class PeerConnection(asyncio.Protocol):
    """A connection with its handshake and its frames."""

    def __init__(self, owner: PeerConnectionOwner, handshake: Dialer | Answerer) -> None:
        self._owner = owner
        self._handshake = handshake
        self._reader = PeerFrameReader(HANDSHAKE_BYTES_MAX)
        self._writer = PeerFrameWriter()
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.session: PeerSession | None = None
        self.is_paused = False  # the socket takes no more for now
        self.is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        if self.is_over:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(SOCKET_BUFFER_BYTES_MAX)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_S, self._handshake_timed_out)
        if isinstance(self._handshake, Dialer):
            self.send([self._handshake.hello])

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        self._reader.append(data)
        try:
            while not self.is_over and (payload := self._reader.next()) is not None:
                if self.session is None:
                    self._handshake_received(payload)
                else:
                    self._owner.received(self, payload)
        except PeerFault as fault:
            self._fail(fault)

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.session is not None and not self.is_over:
            self._owner.writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        text = f"the connection was lost: {error}" if error else "the other node closed"
        self.close(PeerReason.CONNECTION_LOST, text)

    def send(self, payloads: Sequence[bytes]) -> None:
        """Send frames in one write. Check ``is_paused`` first."""
        self.send_packed(self.packed(payloads))

    def packed(self, payloads: Sequence[bytes]) -> list[bytes]:
        """Frames with their checksums, to be sent next.

        Any thread, if nothing is sent meanwhile: the checksum of a large frame takes a millisecond,
        and depends on all frames before it.
        """
        pieces: list[bytes] = []
        for payload in payloads:
            pieces += self._writer.frame(payload)
        return pieces

    def send_packed(self, pieces: Sequence[bytes]) -> None:
        assert self._transport is not None
        self._transport.writelines(pieces)

    def pause_reading(self) -> None:
        if self._transport is not None and not self.is_over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self.is_over:
            self._transport.resume_reading()

    def close(self, reason: PeerReason, text: str) -> None:
        """End the connection; what was sent last may still arrive."""
        self._end(PeerFault(reason, text))

    @property
    def peer(self) -> str:
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if name else ""

    @property
    def certificate(self) -> Certificate | None:
        found = self._transport.get_extra_info("peercert") if self._transport else None
        return cast("Certificate | None", found)

    def _handshake_received(self, payload: bytes) -> None:
        answer = self._handshake.received(payload)
        if answer is not None:
            self.send([answer])
        session = self._handshake.session
        if session is None:
            return
        self._reader.rekey(FRAME_BYTES_MAX_BY_PURPOSE[session.purpose], session.receive_key)
        self._writer = PeerFrameWriter(session.send_key)
        self.session = session
        self._stop_deadline()
        self._owner.opened(self, session)

    def _fail(self, fault: PeerFault) -> None:
        if self.session is None and isinstance(self._handshake, Answerer) and not self.is_over:
            self.send([Answerer.refusal(fault)])
        self._end(fault)

    def _end(self, fault: PeerFault) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._stop_deadline()
        if self._transport is not None:
            if self.is_paused:  # buffered data would keep the socket, and its memory, for long
                self._transport.abort()
            else:
                self._transport.close()
        self._owner.ended(self, fault)

    def _handshake_timed_out(self) -> None:
        self._deadline = None
        self.close(
            PeerReason.HANDSHAKE_TIMEOUT,
            f"the other side did not authenticate within {HANDSHAKE_S:g} s",
        )

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def tune(connection: socket.socket) -> None:
    """Send small frames at once, and notice a dead connection within seconds."""
    tcp = socket.IPPROTO_TCP
    connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, IDLE_S)
    connection.setsockopt(tcp, socket.TCP_KEEPINTVL, PROBE_S)
    connection.setsockopt(tcp, socket.TCP_KEEPCNT, PROBES)
    connection.setsockopt(tcp, socket.TCP_USER_TIMEOUT, SILENCE_MS)
