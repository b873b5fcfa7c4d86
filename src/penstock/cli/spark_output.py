"""What Spark's Java process prints, passed on without what is of no use to anybody.

Java and the Python workers below it print to the standard error that they inherit. That is a pipe
of ours while they are started: a thread reads it, drops what is known to be noise, and writes the
rest to the terminal or, where a table is drawn there, above the table.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_NOISE: Final = (
    "WARNING: Using incubator modules",
    "WARNING: package sun.security.action not in java.base",  # of Java 24 and newer
    # Spark's worker for state prints its steps, each followed by an empty line.
    "Starting Streaming TransformWithStateInPandas Python worker",
    "Streaming TransformWithStateInPandas Python worker ",
)

_STDERR: Final = 2


class Sieve:
    """Tells line by line what is passed on."""

    def __init__(self) -> None:
        self._has_dropped = False

    def passes(self, line: str) -> bool:
        """Tell whether a line is passed on; empty lines after a dropped one are not."""
        is_noise = line.startswith(_NOISE)
        is_rest = self._has_dropped and not line.strip()
        self._has_dropped = is_noise or is_rest
        return not self._has_dropped


class JavaOutput:
    """The pipe, and where its lines go: standard error, unless ``write`` is replaced."""

    def __init__(self) -> None:
        self._terminal = os.fdopen(os.dup(_STDERR), "w", buffering=1, errors="replace")
        self.write: Callable[[str], object] = self.say
        self.passed_on = threading.Event()
        """Set when all that had the pipe are gone."""

    def say(self, line: str) -> None:
        """Write a line to the standard error that the command was started with."""
        print(line, file=self._terminal, flush=True)

    @contextmanager
    def inherited(self) -> Iterator[None]:
        """Have processes that are started meanwhile write to the pipe."""
        reader, writer = os.pipe()
        threading.Thread(target=self._pass_on, args=(reader,), name="java", daemon=True).start()
        sys.stderr.flush()
        own = os.dup(_STDERR)
        os.dup2(writer, _STDERR)
        os.close(writer)
        try:
            yield
        finally:
            os.dup2(own, _STDERR)
            os.close(own)

    def _pass_on(self, reader: int) -> None:
        """Pass lines on until the last process that has the pipe is gone."""
        sieve = Sieve()
        with os.fdopen(reader, errors="replace") as lines:
            for line in lines:
                if sieve.passes(line):
                    self.write(line.rstrip("\n"))
        self.passed_on.set()
