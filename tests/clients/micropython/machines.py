"""The machines that run ``driver.py``: CPython, MicroPython's VM in Node, and MicroPython itself.

The client is the same in all; what differs is big integers, garbage, streams and clocks. A machine
that is not there is skipped with its reason; under CI the first two must be there.
"""

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import pytest

__all__ = [
    "DRIVERS",
    "HERE",
    "PACKAGE",
    "TIMEOUT_S",
    "Machine",
    "RefusedError",
    "command",
    "environment",
    "is_expected",
    "missing",
    "need",
]

HERE = Path(__file__).parent
PACKAGE = Path(__file__).parents[3] / "clients/micropython"
VM = HERE / "vm/node_modules/@micropython/micropython-webassembly-pyscript"
TIMEOUT_S = 30
DRIVERS = ("cpython", "wasm", "native")


def missing(name: str) -> str:
    """Why a machine is not there; empty if it is."""
    if name == "wasm":
        if shutil.which("node") is None:
            return "node is not installed"
        if not VM.exists():
            return "MicroPython's VM is not installed: npm install in tests/clients/micropython/vm"
    if name == "native" and shutil.which("micropython") is None:
        return "micropython is not installed"
    return ""


def is_expected(name: str) -> bool:
    """Whether a machine is to be told as skipped: few systems have a package of MicroPython."""
    return name != "native" or not missing(name)


def need(name: str) -> None:
    if reason := missing(name):
        if os.environ.get("CI") == "true" and is_expected(name):
            pytest.fail(reason)
        pytest.skip(reason)


def command(name: str, program: str = "driver.py", package: Path = PACKAGE) -> list[str]:
    """The command that runs a program of this folder in a machine."""
    if name == "cpython":
        return [sys.executable, str(HERE / program)]
    if name == "native":
        return ["micropython", "-X", "heapsize=4M", str(HERE / program)]
    in_vm = {"driver.py": "run_driver.py", "crypto_program.py": "run_crypto.py"}[program]
    return ["node", str(HERE / "vm/host.mjs"), str(package), str(HERE / "vm" / in_vm)]


def environment(package: Path = PACKAGE) -> dict[str, str]:
    """The client is called penstock, like the broker: it must be found first."""
    return os.environ | {"PYTHONPATH": str(package), "MICROPYPATH": f".frozen:{package}:{HERE}"}


class RefusedError(Exception):
    """The driver answered that it failed; ``kind`` is its word for it."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said["error"])
        self.kind = said["kind"]


class Machine:
    """A running driver."""

    def __init__(self, name: str, package: Path = PACKAGE) -> None:
        need(name)
        self.name = name
        self._calls = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._events: dict[str, queue.SimpleQueue[dict[str, Any]]] = {
            kind: queue.SimpleQueue() for kind in ("message", "lost", "state")
        }
        self._process = subprocess.Popen(
            command(name, package=package),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(package),
            text=True,
            bufsize=1,
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            waiting = self._answers[said["id"]] if "id" in said else self._events[said["event"]]
            waiting.put(said)

    def begin(self, do: str, **more: Any) -> int:
        """Ask, and do not wait for the answer."""
        call = next(self._calls)
        self._answers[call] = queue.SimpleQueue()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": call, "do": do, **more}) + "\n")
        return call

    def end(self, call: int) -> dict[str, Any]:
        """Wait for the answer."""
        said = self._answers[call].get(timeout=TIMEOUT_S)
        del self._answers[call]
        if not said["ok"]:
            raise RefusedError(said)
        return said

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        return self.end(self.begin(do, **more))

    def connect(self, port: int, **more: Any) -> None:
        self.ask("connect", host="127.0.0.1", port=port, **more)

    def begin_publish(self, topic: str, payload: bytes, **more: Any) -> int:
        encoded = base64.b64encode(payload).decode()
        return self.begin("publish", topic=topic, payload_b64=encoded, **more)

    def publish(self, topic: str, payload: bytes, **more: Any) -> None:
        self.end(self.begin_publish(topic, payload, **more))

    def event(self, kind: str) -> dict[str, Any]:
        return self._events[kind].get(timeout=TIMEOUT_S)

    def message(self) -> dict[str, Any]:
        said = self.event("message")
        said["payload"] = base64.b64decode(said["payload_b64"])
        return said

    def payloads(self, count: int) -> list[bytes]:
        return [self.message()["payload"] for _ in range(count)]

    def has_no_more(self) -> bool:
        """Whether no message is left, once all that was asked is done."""
        self.ask("flush")
        return self._events["message"].empty()

    def state(self, wanted: str) -> None:
        while self.event("state")["state"] != wanted:
            pass

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join()
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
