"""A profiler loaded into the broker's process: what runs, looked at a thousand times a second.

``python -m benchmarks.sampler OUT PROGRAM ARGUMENTS...`` runs PROGRAM as if it were started alone,
with one more thread that looks at the others' stacks. Unlike cProfile it costs the same whatever
the number of calls, so small functions keep their true share; and it sees the writer thread too.
Time inside C (LMDB, the event loop's own code) is put on the Python line that called it. A thread
that waits is told from one that works by its CPU clock, which must have moved since the last look.
"""

import json
import runpy
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

__all__ = ["Sampler"]

PERIOD_S = 0.001
DEPTH_MAX = 60


class Sampler(threading.Thread):
    """Counts what threads do: ``own`` by innermost line, ``within`` by every function above it."""

    def __init__(self) -> None:
        super().__init__(name="sampler", daemon=True)
        self._ended = threading.Event()
        self._clocks: dict[int, float] = {}
        self.samples = 0
        self.own: Counter[str] = Counter()
        self.within: Counter[str] = Counter()

    def run(self) -> None:
        """Look, wait, look again, until :meth:`end`."""
        sys.setswitchinterval(PERIOD_S / 2)
        while not self._ended.wait(PERIOD_S):
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():  # noqa: SLF001 - the one way in
                if ident != self.ident and self._worked(ident):
                    self._count(names.get(ident, "?"), frame)

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()

    def report(self) -> dict[str, object]:
        """The counts, as plain values."""
        return {"samples": self.samples, "own": self.own, "within": self.within}

    def _worked(self, ident: int) -> bool:
        try:
            clock = time.clock_gettime(time.pthread_getcpuclockid(ident))
        except OSError:
            return False  # it has ended meanwhile
        before = self._clocks.get(ident)
        self._clocks[ident] = clock
        return before is not None and clock - before > PERIOD_S / 4

    def _count(self, thread: str, frame: FrameType) -> None:
        self.samples += 1
        self.own[f"{thread}: {_where(frame)}:{frame.f_lineno}"] += 1
        stack: set[str] = set()
        walker: FrameType | None = frame
        while walker is not None and len(stack) < DEPTH_MAX:
            stack.add(f"{thread}: {_where(walker)}")
            walker = walker.f_back
        self.within.update(stack)


def _where(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}"


def main(out: Path, program: str, arguments: list[str]) -> None:
    """Run ``program`` to its end, however it ends, and leave the counts in ``out``."""
    sampler = Sampler()
    sampler.start()
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        sampler.end()
        out.write_text(json.dumps(sampler.report()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
