"""A client behind lines of JSON: a process that does what a scenario asks, and tells what happens.

The same for every client, so that one suite of scenarios runs on all of them. Each request has a
number, ``id``, which its answer repeats; answers may come out of order. Lines without one are
events.

================  ==========================================================  ====================
``do``            asks                                                        answer
================  ==========================================================  ====================
hello                                                                         client, abilities,
                                                                              limits
connect           host, port, client_id, user, password, key, keep_alive,
                  clock_ms, wait (false: go on in the background), nodes, ca
publish           topic, payload_b64, signed (0, 1, 2), retain,               when acknowledged
                  wait (false: refuse rather than wait for room)
subscribe         topic, start, prefetch                                      when asked for, or
                                                                              when the broker has it
unsubscribe       topic
auto_ack          on
ack               sequence
verify            key_id, public_b64, require
clock             ms
flush             timeout_ms                                                  when the broker has
                                                                              all of the above
stats                                                                         counters
close
================  ==========================================================  ====================

Drivers of queue clients have other requests instead of ``publish`` and what follows, and pass
payloads to handlers that end by ``ack`` or ``nack``:

================  ==========================================================  ====================
produce           topic, payload_b64, priority, delay_ms, ttl_ms              offset, when stored
consume           topic, group, prefetch, visibility_ms
ack, nack         lease; reason, delay_ms
================  ==========================================================  ====================

A failure is answered with ``error``, and ``kind``, a word. Events are
``message`` (topic, payload_b64, sequence, signer), ``job`` (topic, payload_b64, offset, lease,
redeliveries), ``state`` (up, down, taken_over, refused) and ``lost`` (text, count). The end of its
input ends a driver.
"""

import base64
import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Self

__all__ = ["DriverProcess", "FailedError", "Line", "encoded"]

PATIENCE_S = 60.0  # only a failing test waits this long

Line = dict[str, Any]


class FailedError(Exception):
    """The driver answered that it failed; ``kind`` is its word for it."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"{line.get('kind')}: {line.get('error')}")
        self.kind = str(line.get("kind"))


class DriverProcess:
    """A running driver."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._answers: dict[int, Line] = {}
        self._events: list[Line] = []
        self._ended = False
        self._reader = threading.Thread(target=self._read, name=f"{name}-reader")
        self._reader.start()
        hello = self.do("hello")
        self.abilities = frozenset(hello["abilities"])
        self.limits: Line = hello.get("limits", {})

    def _read(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            line = json.loads(text)
            with self._changed:
                if "id" in line:
                    self._answers[line["id"]] = line
                else:
                    self._events.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # ── Asking ────────────────────────────────────────────────────────────────────────────────

    def begin(self, do: str, **fields: object) -> int:
        """Ask, and do not wait for the answer."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "do": do, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        return number

    def end(self, number: int, patience_s: float = PATIENCE_S) -> Line:
        """Wait for an answer, and insist on success."""
        self._wait(lambda: number in self._answers, patience_s)
        line = self._answers.pop(number)
        if not line["ok"]:
            raise FailedError(line)
        return line

    def do(self, do: str, **fields: object) -> Line:
        return self.end(self.begin(do, **fields))

    def is_answered(self, number: int) -> bool:
        with self._changed:
            return number in self._answers

    def is_refused(self, number: int) -> bool:
        """Whether it has been answered, and failed."""
        with self._changed:
            return not self._answers.get(number, {"ok": True})["ok"]

    def wait_answers(self, numbers: Sequence[int], count: int) -> None:
        """Wait until so many of these are answered, whichever."""
        self._wait(lambda: sum(number in self._answers for number in numbers) >= count)

    def connect(self, port: int, **fields: object) -> None:
        self.do("connect", host="127.0.0.1", port=port, **fields)

    def begin_publish(self, topic: str, payload: bytes, **fields: object) -> int:
        return self.begin("publish", topic=topic, payload_b64=encoded(payload), **fields)

    def publish(self, topic: str, payload: bytes, **fields: object) -> None:
        self.end(self.begin_publish(topic, payload, **fields))

    def subscribe(self, topic: str, **fields: object) -> None:
        """Subscribe; return when the broker has it.

        Some clients answer before they send it. What another client does next may then come first.
        """
        self.do("subscribe", topic=topic, **fields)
        self.flush()

    def flush(self) -> None:
        """Wait until the broker has all requests, and its disk all acknowledgements."""
        self.do("flush", timeout_ms=int(PATIENCE_S * 1000))

    # ── Events ────────────────────────────────────────────────────────────────────────────────

    def event(self, kind: str, wanted: Callable[[Line], bool] = lambda _line: True) -> Line:
        """The next event of a kind, and like this; others stay."""

        def index() -> int | None:
            numbered = enumerate(self._events)
            found = (i for i, line in numbered if line["event"] == kind and wanted(line))
            return next(found, None)

        self._wait(lambda: index() is not None)
        with self._changed:
            return self._events.pop(index() or 0)

    def state(self, state: str) -> Line:
        return self.event("state", lambda line: line["state"] == state)

    def messages(self, count: int) -> Iterator[Line]:
        """So many messages; those that come in pieces are put together."""
        for _ in range(count):
            line = self.event("message")
            payload = base64.b64decode(line["payload_b64"])
            while len(payload) < line.get("total", 0):
                piece = self.event("message")
                assert piece["offset"] == len(payload)
                payload += base64.b64decode(piece["payload_b64"])
            yield {**line, "sequence": int(line["sequence"]), "payload": payload}

    def payloads(self, count: int) -> list[bytes]:
        return [message["payload"] for message in self.messages(count)]

    def jobs(self, count: int) -> list[Line]:
        found = [self.event("job") for _ in range(count)]
        return [{**line, "payload": base64.b64decode(line["payload_b64"])} for line in found]

    def waiting(self, kind: str) -> int:
        """How many events of a kind have come and were not asked for."""
        with self._changed:
            return sum(line["event"] == kind for line in self._events)

    def wait_events(self, kind: str, count: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until so many events of a kind have come; they stay."""
        self._wait(lambda: self.waiting(kind) >= count, patience_s)

    def _wait(self, condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        deadline = monotonic() + patience_s
        with self._changed:
            while not condition():
                left_s = deadline - monotonic()
                assert not self._ended, f"the driver {self.name} ended; last {self._events[-9:]}"
                assert left_s > 0, f"{self.name} did not; last {self._events[-9:]}"
                self._changed.wait(left_s)

    # ── Ends ──────────────────────────────────────────────────────────────────────────────────

    def kill(self) -> None:
        """As a device that loses its power."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def close(self) -> None:
        """End it; a driver whose sanitizer complains does so by its status."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        was_killed = self._process.poll() is not None
        try:
            self._process.stdin.close()
            status = self._process.wait(PATIENCE_S)
        except BrokenPipeError:
            status = self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()
        assert was_killed or status == 0, f"{self.name} ended with status {status}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def encoded(payload: bytes) -> str:
    return base64.b64encode(payload).decode()
