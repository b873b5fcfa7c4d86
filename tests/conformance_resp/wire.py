"""Bytes to a server, bytes back: no client library between the test and the wire."""

import shlex
import socket
from typing import Self

ANSWER_S_MAX = 10


def packed(command: str | bytes) -> bytes:
    """Turn a typed command into an array; bytes stay as they are."""
    if isinstance(command, bytes):
        return command
    arguments = [argument.encode() for argument in shlex.split(command)]
    return array(*arguments)


def array(*arguments: bytes) -> bytes:
    """Encode a command, argument by argument."""
    bulks = b"".join(b"$%d\r\n%b\r\n" % (len(argument), argument) for argument in arguments)
    return b"*%d\r\n%b" % (len(arguments), bulks)


def ask(port: int, *commands: str | bytes) -> bytes:
    """Send all commands at once, then QUIT; return everything received."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX) as connection:
        connection.sendall(b"".join(map(packed, commands)) + array(b"QUIT"))
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


class Peer:
    """A connection that stays open: commands out, complete answers in."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)

    def send(self, *commands: str | bytes) -> None:
        self._socket.sendall(b"".join(map(packed, commands)))

    def read(self, expected: bytes) -> bytes:
        """Read as many bytes as ``expected`` has."""
        answer = b""
        while len(answer) < len(expected) and (chunk := self._socket.recv(len(expected))):
            answer += chunk
        return answer

    def read_end(self) -> bytes:
        """Read all that comes until the other side closes."""
        answer = b""
        while chunk := self._socket.recv(65_536):
            answer += chunk
        return answer

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
