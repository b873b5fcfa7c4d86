"""A profiler inside the broker's process: samples stacks by a timer of CPU time.

``python -m benchmarks.sampler OUT PROGRAM ARGUMENTS...`` runs PROGRAM as if it were started alone.
The kernel sends a signal per millisecond of CPU time that the process used (or as often as its
clock allows, 4 ms on many machines); Python handles it in the main thread as soon as the current
call returns, and counts the stacks of the threads that worked since the last signal.

Unlike cProfile this costs the same whatever the number of calls, so small functions keep their
share; and it sees the writer thread too, which it distinguishes from a waiting thread by its CPU
clock. Time inside C (LMDB, the event loop) is attributed to the Python line that called it. Lines
are approximate: the interpreter checks for signals only at calls and at the ends of loops. Other
threads are sampled when the main thread handles the signal, which is often when they wait: trust
their share, not their lines.

A thread that samples the others would be simpler and wrong: it gets the interpreter's lock when a
system call releases it, so it would see little but system calls.
"""

import json
import runpy
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

__all__ = ["Sampler"]

PERIOD_S = 0.001
DEPTH_MAX = 60


class Sampler:
    """Counts what threads do: ``own`` by innermost line, ``within`` by every function above it."""

    def __init__(self) -> None:
        self._clocks: dict[int, float] = {}
        self.samples = 0
        self.own: Counter[str] = Counter()
        self.within: Counter[str] = Counter()

    def start(self) -> None:
        """Start sampling; call this in the main thread."""
        signal.signal(signal.SIGPROF, self._on_timer)
        signal.setitimer(signal.ITIMER_PROF, PERIOD_S, PERIOD_S)

    def stop(self) -> None:
        """Stop sampling."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def report(self) -> dict[str, object]:
        """Return the counts as plain values."""
        return {"samples": self.samples, "own": self.own, "within": self.within}

    def _on_timer(self, _: int, interrupted: FrameType | None) -> None:
        frames = sys._current_frames()  # noqa: SLF001 - there is no other way in
        main = threading.main_thread().ident
        for thread in threading.enumerate():
            ident = thread.ident
            frame = interrupted if ident == main else frames.get(ident or 0)
            if ident and frame and self._worked(ident):
                self.count(thread.name, frame)

    def _worked(self, ident: int) -> bool:
        try:
            clock = time.clock_gettime(time.pthread_getcpuclockid(ident))
        except OSError:
            return False  # the thread has ended meanwhile
        before = self._clocks.get(ident)
        self._clocks[ident] = clock
        return before is not None and clock - before > PERIOD_S / 4

    def count(self, thread: str, frame: FrameType) -> None:
        """Count the stack whose innermost frame is ``frame``; recursion counts once."""
        self.samples += 1
        self.own[f"{thread}: {_where(frame)}:{frame.f_lineno}"] += 1
        stack: set[str] = set()
        outer: FrameType | None = frame
        while outer is not None and len(stack) < DEPTH_MAX:
            stack.add(f"{thread}: {_where(outer)}")
            outer = outer.f_back
        self.within.update(stack)


def _where(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}"


def main(out: Path, program: str, arguments: list[str]) -> None:
    """Run ``program`` until it exits in any way, and write the counts to ``out``."""
    sampler = Sampler()
    sys.argv = [program, *arguments]
    sampler.start()
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sampler.stop()
        out.write_text(json.dumps(sampler.report()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
