"""One connection between two nodes: handshake, then frames. The same for both sides.

A link is sans policy: whoever makes it says what the handshake is, and is told when it is open,
when a frame came, when the socket takes more, and once, why it ended.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from penstock.cluster.faults import PeerFault
from penstock.cluster.frames import FRAME_BYTES_MAX
from penstock.cluster.framing import PeerFrameReader, PeerFrameWriter
from penstock.cluster.handshake import HANDSHAKE_BYTES_MAX, Answerer, Dialer, PeerSession, Purpose
from penstock.limits import KIB, MIB
from penstock.obs.reasons import PeerReason

HANDSHAKE_S = 5.0
"""How long the other side may take to prove who it is."""

FRAME_BYTES_MAX_BY_PURPOSE = {
    Purpose.CONTROL: 256 * KIB,
    Purpose.BULK: FRAME_BYTES_MAX,
    Purpose.SNAPSHOT: MIB + 4 * KIB,
}
"""Control carries numbers, and words for persons at most; a snapshot comes in pieces of 1 MiB."""

SOCKET_WAITING_BYTES_MAX = 256 * KIB
"""What is given to the socket beyond what the kernel takes; the rest waits in our own queue."""

IDLE_S, PROBE_S, PROBES = 5, 2, 3
SILENCE_MS = 6_000
"""The kernel asks after a silent connection, and gives one up that nobody confirms anything on."""


class PeerConnectionOwner(Protocol):
    """What a link tells whoever made it."""

    def opened(self, link: "PeerConnection", session: PeerSession) -> None:
        """Both sides have proven who they are."""
        ...

    def received(self, link: "PeerConnection", payload: bytes) -> None:
        """A frame came. May raise PeerFault, which ends the link."""
        ...

    def writable(self, link: "PeerConnection") -> None:
        """The socket takes more again."""
        ...

    def ended(self, link: "PeerConnection", fault: PeerFault) -> None:
        """The link is no more. Told once, and nothing after it."""
        ...


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
        self.is_paused = False
        """Whether the socket has enough for now."""
        self.is_over = False

    # ── asyncio's side ────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        if self.is_over:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(SOCKET_WAITING_BYTES_MAX)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HANDSHAKE_S, self._overdue)
        if isinstance(self._handshake, Dialer):
            self.send([self._handshake.hello])

    def data_received(self, data: bytes) -> None:
        if self.is_over:
            return
        self._reader.append(data)
        try:
            while not self.is_over and (payload := self._reader.next()) is not None:
                if self.session is None:
                    self._shake(payload)
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

    # ── Our side ──────────────────────────────────────────────────────────────────────────────

    def send(self, payloads: Sequence[bytes]) -> None:
        """Send frames, as one write. The caller looks at ``is_paused`` before."""
        assert self._transport is not None
        pieces: list[bytes] = []
        for payload in payloads:
            pieces += self._writer.frame(payload)
        self._transport.writelines(pieces)

    def pause_reading(self) -> None:
        """Leave what comes in the socket for a while."""
        if self._transport is not None and not self.is_over:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on reading."""
        if self._transport is not None and not self.is_over:
            self._transport.resume_reading()

    def close(self, reason: PeerReason, text: str) -> None:
        """End the link, telling the owner why; what was sent last may still arrive."""
        self._end(PeerFault(reason, text))

    @property
    def peer(self) -> str:
        """The other side's address, for the log."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return f"{name[0]}:{name[1]}" if name else ""

    @property
    def certificate(self) -> dict[str, object] | None:
        """What the other side showed, if this is TLS."""
        found = self._transport.get_extra_info("peercert") if self._transport else None
        return cast("dict[str, object] | None", found)

    def _shake(self, payload: bytes) -> None:
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
            if self.is_paused:  # what waits would keep the socket, and its memory, for long
                self._transport.abort()
            else:
                self._transport.close()
        self._owner.ended(self, fault)

    def _overdue(self) -> None:
        self._deadline = None
        self.close(
            PeerReason.HANDSHAKE_TIMEOUT, f"no proof who the other side is within {HANDSHAKE_S:g} s"
        )

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def tune(connection: socket.socket) -> None:
    """Have small frames leave at once, and a dead connection noticed within seconds."""
    tcp = socket.IPPROTO_TCP
    connection.setsockopt(tcp, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, IDLE_S)
    connection.setsockopt(tcp, socket.TCP_KEEPINTVL, PROBE_S)
    connection.setsockopt(tcp, socket.TCP_KEEPCNT, PROBES)
    connection.setsockopt(tcp, socket.TCP_USER_TIMEOUT, SILENCE_MS)
