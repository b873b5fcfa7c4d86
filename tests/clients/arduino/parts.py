"""Parts of the Arduino library as a process: a request per line, its answer in a line."""

import subprocess
from typing import Self

from tests.clients.arduino.driver import LIBRARY, PATIENCE_S

PROGRAM = LIBRARY / "test" / "build" / "parts"


class Parts:
    """See clients/arduino/test/parts.cpp."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End it; sanitizers complain by the exit status."""
        self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == 0

    def ask(self, what: str, *arguments: bytes | int | str) -> str:
        words = [what, *map(_hex, arguments)]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().decode().strip()


def _hex(argument: bytes | int | str) -> str:
    if isinstance(argument, int):
        argument = argument.to_bytes(4, "big")
    elif isinstance(argument, str):
        argument = argument.encode()
    return argument.hex() or "-"
