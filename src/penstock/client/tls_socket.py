"""A socket with TLS, for the blocking links: what they use of a socket, with its meaning.

After ``recv`` nothing readable is left inside, so that ``poll`` on the descriptor is enough. One
thread may read while another sends. Reading never sends: what TLS answers to the other end (a
changed key) leaves with the next bytes of ours, as the standard allows.
"""

import socket
import threading
from contextlib import suppress
from time import monotonic
from typing import Final

from penstock.client.tls_channel import ENCRYPT_BYTES, HandshakeClosedError, TlsChannel

HANDSHAKE_BYTES: Final = 64 * 1024


class TlsSocket:
    """See the module."""

    def __init__(self, connection: socket.socket, channel: TlsChannel) -> None:
        self._raw = connection
        self._channel = channel
        self._lock = threading.Lock()  # guards the channel
        self._writing = threading.Lock()  # held until ciphertext has left, in its order
        self._unsent = memoryview(b"")  # ciphertext that a non-blocking ``send`` left over
        self._owed = 0  # plaintext in it, which ``send`` has not reported as sent yet
        self.fileno = connection.fileno
        self.setblocking = connection.setblocking
        self.settimeout = connection.settimeout
        self.setsockopt = connection.setsockopt
        self.close = connection.close

    def shake_hands(self, timeout_s: float) -> None:
        """Raises OSError; ssl.SSLError is one."""
        deadline = monotonic() + timeout_s
        data = b""
        while not self._channel.shake_hands(data):
            self._send_rest()
            data = self._receive_until(deadline)
        self._send_rest()

    def _receive_until(self, deadline: float) -> bytes:
        remaining = deadline - monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._raw.settimeout(remaining)
        data = self._raw.recv(HANDSHAKE_BYTES)
        if not data:
            raise HandshakeClosedError
        return data

    def _send_rest(self) -> None:
        """Send what TLS has to say, be it an alert."""
        self._raw.sendall(self._channel.encrypted(b""))

    def recv(self, size: int) -> bytes:
        """Return plaintext, a little more than ``size`` perhaps; empty at the end."""
        while True:
            if self._channel.has_ended:
                return b""
            data = self._raw.recv(size)
            if not data:
                return b""
            with self._lock:
                plain = self._channel.decrypted(data)
            if plain:
                return plain

    def send(self, data: bytes | bytearray) -> int:
        """Send a part of ``data``; return its length once the system has all of its ciphertext.

        As long as this raises BlockingIOError the next call must begin with the same bytes.
        """
        with self._writing:
            if not self._unsent:
                self._owed = min(len(data), ENCRYPT_BYTES)
                with self._lock, memoryview(data) as view:
                    self._unsent = memoryview(self._channel.encrypted(view[: self._owed]))
            while self._unsent:
                self._unsent = self._unsent[self._raw.send(self._unsent) :]
            return self._owed

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        with self._writing:
            for start in range(0, len(view), ENCRYPT_BYTES):
                with self._lock:
                    cipher = self._channel.encrypted(view[start : start + ENCRYPT_BYTES])
                self._raw.sendall(cipher)

    def shutdown(self, how: int) -> None:
        """Close a direction or both; the broker is told, if that can be done without waiting."""
        if how == socket.SHUT_WR and self._writing.acquire(blocking=False):
            try:
                with self._lock, suppress(BlockingIOError):
                    self._raw.send(self._channel.goodbye(), socket.MSG_DONTWAIT)
            finally:
                self._writing.release()
        self._raw.shutdown(how)
