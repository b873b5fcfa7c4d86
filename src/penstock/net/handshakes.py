"""Threads for the arithmetic of TLS handshakes, so that a fleet that connects stalls nobody else.

``ssl`` lets go of the interpreter's lock while it computes, so handshakes and the event loop use
different cores. Results come back to the loop in batches: one wake-up for all that are done.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from penstock.obs.log import get_logger

THREADS_MAX = 4
_log = get_logger("tls")
_Result = TypeVar("_Result")


class HandshakeThreads:
    """Runs steps of handshakes; threads are started by the first one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: SimpleQueue[Callable[[], Callable[[], None]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._done: list[Callable[[], None]] = []
        self._threads = 0

    def submit(self, step: Callable[[], _Result], done: Callable[[_Result], None]) -> None:
        """Run ``step`` in a thread, then ``done`` with its result on the loop."""

        def run() -> Callable[[], None]:
            return partial(done, step())

        if not self._threads:
            self._start()
        self._steps.put(run)

    def close(self) -> None:
        for _ in range(self._threads):
            self._steps.put(None)

    def _start(self) -> None:
        self._threads = min(THREADS_MAX, max(1, (os.cpu_count() or 1) - 1))
        for number in range(self._threads):
            threading.Thread(target=self._work, name=f"tls-{number}", daemon=True).start()

    def _work(self) -> None:
        while (run := self._steps.get()) is not None:
            try:
                self._hand_back(run())
            except Exception:  # noqa: BLE001 - the next handshake is somebody else's
                _log.exception("handshake_failed")
            del run  # it has the connection, and the next step may be long in coming

    def _hand_back(self, done: Callable[[], None]) -> None:
        with self._lock:
            self._done.append(done)
            is_first = len(self._done) == 1  # else a wake-up is on its way
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        with self._lock:
            all_done, self._done = self._done, []
        for done in all_done:
            try:
                done()
            except Exception:  # noqa: BLE001 - the others must go on
                _log.exception("handshake_failed")
