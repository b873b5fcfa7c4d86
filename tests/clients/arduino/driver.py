"""The Arduino driver as a process: requests go in, answers and events come out, by lines of JSON."""

import base64
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

LIBRARY = Path(__file__).parents[3] / "clients" / "arduino"
DRIVER = LIBRARY / "test" / "driver"
PATIENCE_S = 60

Line = dict[str, Any]


class Driver:
    """See docs of the driver in clients/arduino/test/driver.cpp."""

    def __init__(self, program: Path = DRIVER) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lines: Queue[Line] = Queue()
        self._seen: list[Line] = []  # and not asked for yet
        self._last_id = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put({"event": "end"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End it; sanitizers complain by the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(PATIENCE_S)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        assert status == 0

    def send(self, do: str, **fields: object) -> int:
        self._last_id += 1
        assert self._process.stdin is not None
        request = {"id": self._last_id, "do": do, **fields}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._last_id

    def ask(self, do: str, **fields: object) -> Line:
        return self.answer(self.send(do, **fields))

    def answer(self, request: int) -> Line:
        return self.wait(lambda line: line.get("id") == request)

    def do(self, do: str, **fields: object) -> Line:
        """Ask, and insist on success."""
        line = self.ask(do, **fields)
        assert line["ok"], line
        return line

    def wait(self, wanted: Callable[[Line], bool]) -> Line:
        """Return the first line like this, that was not returned before; the others stay."""
        for i, line in enumerate(self._seen):
            if wanted(line):
                return self._seen.pop(i)
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except Empty:
                raise AssertionError(f"not seen; but {self._seen[-20:]}") from None
            if wanted(line):
                return line
            assert line.get("event") != "end", f"the driver ended; last {self._seen[-20:]}"
            self._seen.append(line)

    def state(self, state: str) -> Line:
        return self.wait(lambda line: line.get("state") == state)

    def publish(self, topic: str, payload: bytes, **fields: object) -> int:
        return self.send("publish", topic=topic, payload_b64=encoded(payload), **fields)

    def messages(self, count: int) -> Iterator[Line]:
        """Return that many messages, in whole; pieces are put together."""
        for _ in range(count):
            line = self.wait(is_message)
            payload = base64.b64decode(line["payload_b64"])
            while len(payload) < line["total"]:
                piece = self.wait(is_message)
                assert piece["offset"] == len(payload)
                payload += base64.b64decode(piece["payload_b64"])
            yield {**line, "payload": payload}

    def payloads(self, count: int) -> list[bytes]:
        return [message["payload"] for message in self.messages(count)]


def is_message(line: Line) -> bool:
    return line.get("event") == "message"


def encoded(payload: bytes) -> str:
    return base64.b64encode(payload).decode()
