"""A WebSocket as if it were a socket: for tests that only care about the bytes inside."""

from websockets.frames import Opcode

from tests.websocket.peer import Peer

__all__ = ["Stream"]


class Stream:
    """The part of a socket that the suite's clients use; each write is one binary frame."""

    def __init__(self, broker) -> None:
        self._peer, self._rest = Peer(broker), b""

    def sendall(self, data: bytes) -> None:
        self._peer.send(data)

    def recv(self, count: int) -> bytes:
        while not self._rest:
            try:
                frame = self._peer.next_frame()
            except EOFError:
                return b""
            if frame.opcode is Opcode.CLOSE:
                self._peer.answer(frame)
                return b""
            assert frame.opcode is Opcode.BINARY, frame
            self._rest = bytes(frame.data)
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def settimeout(self, seconds: float) -> None:
        self._peer.socket.settimeout(seconds)

    def close(self) -> None:
        self._peer.socket.close()
