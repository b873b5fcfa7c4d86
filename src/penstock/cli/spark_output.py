"""Filters the output of Spark's Java process.

Java and its Python workers inherit a pipe as standard error. A thread reads it, drops known noise,
and writes the rest to the terminal, above the progress table if there is one.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_NOISE: Final = (
    "WARNING: Using incubator modules",
    "WARNING: package sun.security.action not in java.base",  # Java 24 and newer
    # Spark's state worker prints its steps, each followed by an empty line.
    "Starting Streaming TransformWithStateInPandas Python worker",
    "Streaming TransformWithStateInPandas Python worker ",
)

_STDERR: Final = 2


class NoiseFilter:
    """Decides line by line what is passed on."""

    def __init__(self) -> None:
        self._has_dropped = False

    def passes(self, line: str) -> bool:
        """Whether to pass a line on; empty lines after a dropped one are dropped, too."""
        is_noise = line.startswith(_NOISE)
        is_rest = self._has_dropped and not line.strip()
        self._has_dropped = is_noise or is_rest
        return not self._has_dropped


class JavaOutput:
    """The pipe. Its lines go to standard error unless ``write`` is replaced."""

    def __init__(self) -> None:
        self._terminal = os.fdopen(os.dup(_STDERR), "w", buffering=1, errors="replace")
        self.write: Callable[[str], object] = self.say
        self.passed_on = threading.Event()  # set when all writers of the pipe have exited

    def say(self, line: str) -> None:
        print(line, file=self._terminal, flush=True)

    @contextmanager
    def inherited(self) -> Iterator[None]:
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
        noise_filter = NoiseFilter()
        with os.fdopen(reader, errors="replace") as lines:
            for line in lines:
                if noise_filter.passes(line):
                    self.write(line.rstrip("\n"))
        self.passed_on.set()
