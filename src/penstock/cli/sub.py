"""``penstock sub``: subscribe, and print a line per message.

A message is acknowledged after its line has been written. So with a stored session (``-c``) a run
continues where the last one ended, and ``-n COUNT`` consumes exactly COUNT. A line on standard
error reports the subscription; standard output has messages only.

**When the connection breaks** the command reconnects and subscribes again (``listening``), until
``--timeout`` if given.

**With ``--replay``** the broker sends history before new messages, by MQTT. **With ``--from`` or
``--since``** the command reads the journal by the queue protocol instead.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, inf
from pathlib import Path
from time import monotonic, time_ns
from typing import Final

import click

from penstock.cli import names
from penstock.cli.connection import BrokerTarget, checked_filters, client_id_option, mqtt_options
from penstock.cli.inputs import flag, is_given, option_set, time_option
from penstock.cli.interrupts import discard_output
from penstock.cli.journal_reader import JournalReader, StartPosition, start_options
from penstock.cli.listening import UNREACHABLE, Listening, Output, Wanted
from penstock.cli.message_lines import delivery_json, delivery_text, record_json, record_text
from penstock.cli.output import counted
from penstock.cli.recording import Recorder
from penstock.client import Client, Delivery, ReplyTimeoutError

POLL_S: Final = 1.0  # how long the broker waits for new messages of the journal

_RETAIN_HANDLING: Final = {"always": 0, "new": 1, "never": 2}

_subscribe_options = option_set(
    click.option(
        "--replay",
        default="",
        metavar="WHAT",
        help="Start with history: last=100, since=-5m, since=2026-11-15T12:00:00Z or offset=0.",
    ),
    click.option("--no-local", is_flag=True, help="Skip what this client publishes itself."),
    click.option(
        "--retain-handling",
        type=click.Choice(list(_RETAIN_HANDLING)),
        default="always",
        show_default=True,
        help="When to get retained messages: new is for a filter that the session did not have.",
    ),
    click.option(
        "--retain-as-published", is_flag=True, help="Show the retain flag as the publisher set it."
    ),
    time_option("--session-expiry", "Keep the session of -c for TIME after the end, as in 12h."),
)


@click.command()
@click.argument(
    "filters",
    nargs=-1,
    metavar="[FILTER]...",
    callback=checked_filters,
    shell_complete=names.topics,
)
@click.option(
    "-t",
    "--topic",
    "more_filters",
    multiple=True,
    metavar="FILTER",
    callback=checked_filters,
    help="Subscribe to FILTER, like the argument; repeatable.",
)
@mqtt_options
@click.option(
    "-q",
    "--qos",
    type=click.IntRange(0, 2),
    default=1,
    show_default=True,
    help="Maximum QoS of deliveries.",
)
@client_id_option(
    "Use a persistent session with this id, so that no QoS 1 or 2 message is missed between runs."
    " Without it, only messages that arrive during the run are printed."
)
@start_options
@_subscribe_options
@click.option("-n", "--count", type=click.IntRange(min=1), help="Stop after COUNT messages.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after SECONDS; exit with 1 if COUNT was not reached.",
)
@click.option(
    "-v", "--verbose", is_flag=True, help="Ignored, for compatibility; topics are always printed."
)
@click.option("--quiet", is_flag=True, help="Do not report the subscription on standard error.")
@flag("--json", help="Print a JSON object per message.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write messages to FILE instead, for pub --replay; .gz compresses it.",
)
def sub(
    filters: tuple[str, ...],
    *,
    more_filters: tuple[str, ...],
    target: BrokerTarget,
    qos: int,
    client_id: str,
    begin: int | None,
    since: float | None,
    replay: str,
    no_local: bool,
    retain_handling: str,
    retain_as_published: bool,
    session_expiry: float | None,
    count: int | None,
    timeout_s: float | None,
    record: Path | None,
    verbose: bool,  # noqa: ARG001 - for users of mosquitto_sub
    quiet: bool,
) -> None:
    r"""Subscribe to FILTERs and print `topic payload`, a line per message.

    Control characters are escaped (\n, \x1b), and a payload that is not UTF-8 is printed as
    hex:..., so that a message is always one line; --json is lossless. If the connection breaks, sub
    reconnects. Ctrl-C ends it with exit status 0.

    With --replay, --from or --since it prints stored messages first, as far back as the journal
    goes.
    """
    names = filters + more_filters
    if not names:
        raise click.UsageError("FILTER is missing, as in `penstock sub '#'`")
    if session_expiry is not None and not client_id:
        raise click.UsageError("--session-expiry needs -c: a session is found again by its id")
    wanted = Wanted(
        filters=names,
        qos=qos,
        client_id=client_id,
        session_expiry_s=None if session_expiry is None else ceil(session_expiry),
        no_local=no_local,
        retain_as_published=retain_as_published,
        retain_handling=_RETAIN_HANDLING[retain_handling],
        replay=replay,
    )
    output = Output(count, inf if timeout_s is None else monotonic() + timeout_s, quiet=quiet)
    try:
        if record is not None:
            if begin is not None or since is not None:
                raise click.UsageError("--record takes what is live; --replay starts with history")
            _record(target, wanted, output, record)
        elif begin is None and since is None:
            _listen(target, wanted, output)
        else:
            _check_start(wanted, begin, since)
            _follow(target, names, StartPosition(begin or 0, since), output)
    except BrokenPipeError:
        discard_output()
        return
    if output.is_short():
        raise ReplyTimeoutError(
            f"received {output.printed:,} of {count:,} messages within {timeout_s:g} s"
        )


def _listen(target: BrokerTarget, wanted: Wanted, output: Output) -> None:
    show = delivery_json if is_given("--json") else delivery_text

    def write(_client: Client, deliveries: list[Delivery]) -> None:
        output.write([show(delivery) for delivery in deliveries])

    Listening(target, wanted, output).run(write)


def _record(target: BrokerTarget, wanted: Wanted, output: Output, path: Path) -> None:
    """A message is acknowledged once it is in the file, on disk."""
    recorder = Recorder(path, wanted.filters, _wall_ms())

    def write(_client: Client, deliveries: list[Delivery]) -> None:
        recorder.write(deliveries, _wall_ms())
        output.printed += len(deliveries)

    try:
        Listening(target, wanted, output).run(write)
    finally:
        recorder.finish()
        output.note(f"recorded {counted(recorder.count, 'message')} to {path}")


def _wall_ms() -> int:
    return time_ns() // 1_000_000


# ── Journal ───────────────────────────────────────────────────────────────────────────────────


def _check_start(wanted: Wanted, begin: int | None, since: float | None) -> None:
    if begin is not None and since is not None:
        raise click.UsageError("give only one of --from and --since")
    if wanted.replay:
        raise click.UsageError("give only one of --replay, --from and --since")
    if wanted.client_id:
        raise click.UsageError("-c cannot be combined with --from or --since; --replay can")
    if any(each.startswith("$share/") for each in wanted.filters):
        raise click.UsageError(
            "shared subscriptions have no history; see penstock queue and groups"
        )


def _follow(
    target: BrokerTarget, filters: tuple[str, ...], start: StartPosition, output: Output
) -> None:
    show = record_json if is_given("--json") else record_text
    with target.queue() as client, _signals_as_interrupts():
        client.when_lost(output.report_outage)
        journal = JournalReader(client, filters, start)
        output.note(f"reading {', '.join(filters)}")
        records = journal.stored()
        while not output.is_done and monotonic() < output.deadline:
            try:
                for record in records:
                    output.write([show(record)])
                    if output.is_done or monotonic() >= output.deadline:
                        return
                output.is_connected = True
                records = journal.new(min(POLL_S, max(0.0, output.deadline - monotonic())))
            except UNREACHABLE as error:
                output.report_outage(error)
                records = journal.stored()


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
