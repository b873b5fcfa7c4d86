"""``penstock pub --replay``: publishes a recording at its own pace, or faster, or slower.

Messages that are due are published together; each is confirmed before it counts. When the broker
goes away it reconnects and goes on with the first message that was not confirmed: at least once.
"""

import select
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from math import inf
from pathlib import Path
from random import random
from time import monotonic
from typing import Final

import click
import msgspec

from penstock.bridge.mapping import overlap
from penstock.cli.connection import BrokerTarget, checked_filters
from penstock.cli.inputs import is_given, option_set
from penstock.cli.interrupts import signals_as_input
from penstock.cli.listening import BACKOFF, UNREACHABLE
from penstock.cli.output import columns, counted, format_time, print_result
from penstock.cli.recording import Recorded, Recording
from penstock.client import Client, ClientError
from penstock.errors import PenstockError
from penstock.obs.printable import printable

BATCH: Final = 1_000  # messages published together
SHOWN: Final = 10  # topics that a dry run names


class Renaming(msgspec.Struct, frozen=True):
    """``--map``: a beginning of topics, and what takes its place."""

    before: str
    after: str

    @classmethod
    def of(cls, text: str) -> "Renaming":
        """Read ``a/#=b/#``. Raises BadParameter."""
        before, separator, after = text.partition("=")
        if not separator or not (before.endswith("#") and after.endswith("#")):
            raise click.BadParameter(f"{text!r}: write it as in plant/#=test/plant/#")
        if {"+", "#"}.intersection(before[:-1] + after[:-1]):
            raise click.BadParameter(f"{text!r}: # is the only wildcard, at the end")
        return cls(before[:-1], after[:-1])


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is published of a recording, and how fast."""

    speed: float  # infinity: as fast as the broker confirms
    renamings: tuple[Renaming, ...] = ()
    filters: tuple[str, ...] = ()  # what is published; empty: all
    skip: int = 0  # messages that were published already

    def topic(self, name: str) -> str:
        for renaming in self.renamings:
            if name.startswith(renaming.before):
                return renaming.after + name.removeprefix(renaming.before)
        return name

    def chosen(self, recording: Recording) -> Iterator[Recorded]:
        wanted = (
            one
            for one in recording.messages()
            if not self.filters or any(overlap(one.topic, each) for each in self.filters)
        )
        return islice(wanted, self.skip, None)

    def due_s(self, message: Recorded) -> float:
        """Seconds after the beginning."""
        return message.t_ms / 1000 / self.speed


class Replay:
    """One run; ``done`` counts the messages that are confirmed."""

    def __init__(self, target: BrokerTarget, plan: Plan, note: Callable[[str], None]) -> None:
        self._target = target
        self._plan = plan
        self._note = note
        self.done = 0
        self._began: float | None = None
        self._is_interrupted = False

    def run(self, recording: Recording) -> bool:
        """Publish all of it; False if a signal came first. Raises ClientError at the first try."""
        attempts = 0
        with signals_as_input() as stop:
            while True:
                before = self.done
                try:
                    with self._target.mqtt("") as client:
                        self._publish(client, recording, stop)
                except UNREACHABLE as error:
                    if self._began is None:
                        raise
                    attempts = 0 if self.done > before else attempts + 1
                    self._note(f"{error.message}; going on with message {self.done + 1:,}")
                    self._target.choose_again()
                    pause_s = BACKOFF.pause_s(attempts, random())  # noqa: S311 - no secret
                    self._is_interrupted = _is_readable(stop, pause_s)
                    if not self._is_interrupted:
                        continue
                return not self._is_interrupted

    def _publish(self, client: Client, recording: Recording, stop: int) -> None:
        """Publish what is not confirmed yet."""
        left = islice(self._plan.chosen(recording), self.done, None)
        message = next(left, None)
        while message is not None:
            if self._began is None:
                self._began = monotonic() - self._plan.due_s(message)
            wait_s = self._began + self._plan.due_s(message) - monotonic()
            if wait_s > 0:
                client.receive(0, wait_s, (stop,))  # keeps the connection alive meanwhile
            if _is_readable(stop, 0):
                self._is_interrupted = True
                return
            now = monotonic() - self._began
            batch = [message]
            message = next(left, None)
            while message is not None and len(batch) < BATCH and self._plan.due_s(message) <= now:
                batch.append(message)
                message = next(left, None)
            self._publish_batch(client, batch)

    def _publish_batch(self, client: Client, batch: list[Recorded]) -> None:
        for (qos, retain, properties), run in groupby(batch, lambda one: one[3:]):
            messages = [(self._plan.topic(one.topic), one.payload) for one in run]
            before = client.confirmed
            try:
                client.publish_many(messages, qos, retain=retain, properties=properties)
            except ClientError:
                self.done += client.confirmed - before
                raise
            self.done += len(messages)
        if not batch[-1].qos:
            client.ping()


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    return bool(select.select([descriptor], [], [], timeout_s)[0])


def speed_of(text: str) -> float:
    """Read ``--speed``: a factor, or ``max``. Raises BadParameter."""
    if text == "max":
        return inf
    try:
        speed = float(text)
    except ValueError:
        speed = 0
    if not 0 < speed <= 1e6:
        raise click.BadParameter(f"{text!r}: give a factor, as in 10 or 0.5, or max")
    return speed


def _read_speed(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
    return speed_of(text)


def _read_renamings(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[Renaming, ...]:
    return tuple(Renaming.of(text) for text in texts)


replay_options: Final = option_set(
    click.option(
        "--replay",
        "recording",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Publish a recording of sub --record, in its own time.",
    ),
    click.option(
        "--speed",
        default="1",
        metavar="FACTOR",
        callback=_read_speed,
        help="Replay so many times as fast: 10, 0.5, or max.",
    ),
    click.option(
        "--map",
        "renamings",
        multiple=True,
        metavar="OLD/#=NEW/#",
        callback=_read_renamings,
        help="Replay topics under other names; the first that fits is used.",
    ),
    click.option(
        "--only",
        "filters",
        multiple=True,
        metavar="FILTER",
        callback=checked_filters,
        help="Replay these topics only.",
    ),
    click.option(
        "--skip",
        type=click.IntRange(min=0),
        default=0,
        metavar="NUMBER",
        help="Skip the first messages of a replay that was interrupted.",
    ),
    click.option(
        "--dry-run", is_flag=True, help="Check the recording and say what would be published."
    ),
)


class ReplayOutcome(msgspec.Struct):
    """What ``--json`` prints."""

    file: str
    published: int = 0  # confirmed, those of ``skip`` not counted
    finished: bool = False
    cut_off: bool = False  # the recording has no foot: its recorder was killed
    error: str | None = None


def replay_file(
    path: Path, target: BrokerTarget, plan: Plan, *, quiet: bool, dry_run: bool
) -> None:
    """Replay, and say how it went. Raises PenstockError."""
    recording = Recording(path)
    if dry_run:
        _describe(recording, plan)
        return

    def note(line: str) -> None:
        if not quiet:
            click.echo(line, err=True)

    outcome = ReplayOutcome(str(path))
    replay = Replay(target, plan, note)
    try:
        outcome.finished = replay.run(recording)
    except PenstockError as error:
        outcome.error = str(error)
    outcome.published, outcome.cut_off = replay.done, recording.is_cut_off
    if is_given("--json"):
        click.echo(msgspec.json.encode(outcome))
    elif not quiet and outcome.error is None:
        click.echo(_summary(outcome, plan))
    if outcome.error is not None:
        published = f"{counted(replay.done, 'message')} were published"
        raise PenstockError(f"{outcome.error} ({published}; --skip {plan.skip + replay.done})")


def _summary(outcome: ReplayOutcome, plan: Plan) -> str:
    text = f"published {counted(outcome.published, 'message')}"
    if not outcome.finished:
        return f"{text}, then stopped; --skip {plan.skip + outcome.published} goes on from there"
    return f"{text}; the recording was cut off behind them" if outcome.cut_off else text


def _describe(recording: Recording, plan: Plan) -> None:
    count, last_s = 0, 0.0
    topics: Counter[str] = Counter()
    for message in plan.chosen(recording):
        count, last_s = count + 1, plan.due_s(message)
        topics[plan.topic(message.topic)] += 1
    document = {
        **msgspec.to_builtins(recording.head),
        "messages": count,
        "topics": len(topics),
        "seconds": round(last_s, 3),
        "cut_off": recording.is_cut_off,
    }
    rows = [
        (
            "recorded",
            f"{format_time(recording.head.recorded)}, {', '.join(recording.head.filters)}",
        ),
        ("whole", "no: it was cut off" if recording.is_cut_off else "yes, its checksum is right"),
        ("would publish", f"{counted(count, 'message')} to {counted(len(topics), 'topic')}"),
        ("in", f"{last_s:,.1f} s"),
        *(("", f"{number:,} to {printable(name)}") for name, number in topics.most_common(SHOWN)),
    ]
    print_result(document, columns(rows))
