"""A TLS client in memory, over a socket: its bytes can be split, damaged, or held back."""

import contextlib
import socket
import ssl

__all__ = ["WireClient", "connect"]

TIMEOUT_S = 30.0


def connect(broker, context=None, **options):
    """A socket to the broker, after the handshake if there is a context."""
    plain = socket.create_connection((broker.host, broker.port), TIMEOUT_S)
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname="localhost", **options)
    except BaseException:
        plain.close()
        raise


class WireClient:
    """The client's side; ``sealed`` makes records, which the caller sends with ``send``."""

    def __init__(self, broker, context):
        self.socket = connect(broker)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.socket.close()

    def hello(self):
        """The bytes of a ClientHello."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def send(self, data, piece=0):
        for start in range(0, len(data), piece or len(data) or 1):
            self.socket.sendall(data[start : start + (piece or len(data))])

    def finish(self, piece=0):
        """The whole handshake."""
        self._retry(self.tls.do_handshake, piece)
        self.send(self.outgoing.read(), piece)

    def sealed(self, data):
        self.tls.write(data)
        return self.outgoing.read()

    def goodbye(self):
        """The record by which the client says that it sends no more."""
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        return self.outgoing.read()

    def receive(self, count=65_536):
        return self._retry(lambda: self.tls.read(count), 0)

    def until_closed(self):
        """Wait for the end of the connection; return what came before, encrypted."""
        received = b""
        try:
            while part := self.socket.recv(65_536):
                received += part
        except ConnectionError:
            pass
        return received

    def _retry(self, step, piece):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.send(self.outgoing.read(), piece)
                data = self.socket.recv(65_536)
                if not data:
                    raise ConnectionError("closed") from None
                self.incoming.write(data)
