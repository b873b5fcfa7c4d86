"""Structured logging: an event name in snake_case and key-value pairs, one line each.

On a terminal a line is coloured text (``connection_closed reason=slow_reader client=pump-7``),
elsewhere a JSON object. Clients choose much of what is logged, so every line is guarded:

* **One bounded line.** Text values are escaped and truncated by ``on_one_line``: no newline can
  forge a second event, no control sequence reaches a terminal. Backslashes stay, because what
  quotes a client has been escaped by ``printable`` before: nothing is escaped twice.
* **No secrets.** Values under the names in ``SECRETS`` are replaced. Tracebacks are plain: richer
  ones print local variables, and with them passwords and payloads.
* **No flood.** What a client can cause goes through a ``ThrottledLogger``: a number of lines per
  second and kind, then silence, then one line with the number of suppressed lines.

A log that cannot be written (its reader is gone) is dropped: it must never stop the broker.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable
from enum import Enum
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from penstock.obs.printable import on_one_line

VALUE_CHARACTERS_MAX = 512  # of any text value; error messages with advice fit
LINES_PER_SECOND_MAX = 10  # per kind: a person reads no faster

SECRETS = frozenset({"password", "payload", "secret", "token"})  # never written


def configure(
    level: str,
    format: Literal["console", "json", "auto"],  # noqa: A002 - the name of the configuration key
    stream: TextIO | None = None,
) -> None:
    """Set up logging for the process; ``auto`` is console on a terminal and JSON elsewhere."""
    stream = stream or sys.stderr
    is_console = format == "console" or (format == "auto" and stream.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _hide_secrets,
            _plain_values,
            *_renderers(stream, is_console=is_console),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda name: _StreamLogger(name, stream),
        cache_logger_on_first_use=False,
    )


def get_logger(name: str) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def _renderers(stream: TextIO, *, is_console: bool) -> list[Processor]:
    if not is_console:
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain)]


def _hide_secrets(_logger: object, _method: str, event: EventDict) -> EventDict:
    for name in SECRETS & event.keys():
        event[name] = "(hidden)"
    return event


def _plain_values(_logger: object, _method: str, event: EventDict) -> EventDict:
    # The renderers turn ``exc_info`` into a traceback, several lines on purpose.
    return {name: v if name == "exc_info" else _plain(v) for name, v in event.items()}


class _Quotable(str):
    """Text that was escaped: where the console puts it in quotes, its backslashes stay single.

    Except where it has both kinds of quotes: then a backslash says that one is not the end.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        quoted = super().__repr__()
        return quoted if {"'", '"'} <= set(self) else quoted.replace("\\\\", "\\")


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, bytes | str) else str(value)
    return _Quotable(on_one_line(text, VALUE_CHARACTERS_MAX))


class _StreamLogger:
    """Writes the lines of one component; ignores a stream that is gone."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name = name
        self._stream = stream

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream was closed
            self._stream.write(line + "\n")
            self._stream.flush()

    debug = info = warning = error = critical = msg


class Throttle:
    """Limits the lines per second and kind; counts what it suppresses. Time is a parameter.

    Kinds are names from the source (an event, a reason), never text from a client: there are few.
    """

    def __init__(self, lines_per_second_max: int = LINES_PER_SECOND_MAX) -> None:
        self._lines_max = lines_per_second_max
        self._windows: dict[str, _Window] = {}

    def admit(self, kind: str, now: float) -> bool:
        window = self._windows.get(kind)
        if window is None:
            window = self._windows[kind] = _Window(now)
        if now - window.start >= 1.0:
            window.start, window.lines = now, 0
        if window.lines < self._lines_max:
            window.lines += 1
            return True
        window.suppressed += 1
        return False

    def take_suppressed(self, now: float) -> dict[str, int]:
        over = {
            kind: window.suppressed
            for kind, window in self._windows.items()
            if window.suppressed and now - window.start >= 1.0
        }
        for kind in over:
            self._windows[kind].suppressed = 0
        return over


class _Window:
    """The current second of one kind."""

    __slots__ = ("lines", "start", "suppressed")

    def __init__(self, start: float) -> None:
        self.start = start
        self.lines = 0
        self.suppressed = 0


class ThrottledLogger:
    """A logger for events that clients can cause. Call ``flush`` regularly."""

    def __init__(
        self,
        logger: FilteringBoundLogger,
        throttle: Throttle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._throttle = throttle or Throttle()
        self._clock = clock

    def log(self, level: int, event: str, kind: str = "", **values: object) -> None:
        """Write an event unless its kind (by default its name) exceeds the rate."""
        self.flush()
        if self._throttle.admit(kind or event, self._clock()):
            self._logger.log(level, event, **values)

    def info(self, event: str, kind: str = "", **values: object) -> None:
        self.log(logging.INFO, event, kind, **values)

    def warning(self, event: str, kind: str = "", **values: object) -> None:
        self.log(logging.WARNING, event, kind, **values)

    def flush(self) -> None:
        for kind, count in self._throttle.take_suppressed(self._clock()).items():
            self._logger.warning("lines_suppressed", kind=kind, suppressed=count)
