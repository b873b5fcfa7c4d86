"""What a command prints: its own lines and those of the participants, by level and indented."""

from collections.abc import Iterator
from contextlib import contextmanager

LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "NONE")


class Output:
    """At level NONE nothing at all is printed: setting up a scene is chatty."""

    def __init__(self) -> None:
        self._level = 0
        self._lines: list[str] = []
        self._indent = ""

    def set_level(self, name: str) -> None:
        self._level = LEVELS.index(name.upper())

    @property
    def is_quiet(self) -> bool:
        return LEVELS[self._level] == "NONE"

    def say(self, text: str) -> None:
        if not self.is_quiet:
            self._lines += (self._indent + line for line in text.splitlines())

    def trace(self, level: str, text: str) -> None:
        """What a participant says about itself."""
        if LEVELS.index(level) >= self._level:
            self.say(f"{level} {text}")

    @contextmanager
    def indented(self) -> Iterator[None]:
        before, self._indent = self._indent, self._indent + "  "
        try:
            yield
        finally:
            self._indent = before

    @contextmanager
    def at_level(self, name: str | None) -> Iterator[None]:
        before = self._level
        if name is not None:
            self.set_level(name)
        try:
            yield
        finally:
            self._level = before

    def take(self, error: str = "") -> str:
        """All that was printed since the last time; ``ok`` for nothing. An error is never silenced."""
        taken, self._lines = self._lines + ([error] if error else []), []
        return "".join(f"{line}\n" for line in taken) or "ok\n"
