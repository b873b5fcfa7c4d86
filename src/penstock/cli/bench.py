"""``penstock bench``: what a running broker does, measured from the user's own machine.

Five measurements of some seconds each, with the client library and nothing else; then the topics of
the run are deleted. Ctrl-C ends the run, not the report: what is known is printed, and the topics
are deleted all the same.
"""

import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import click

from penstock.cli.admin_client import AdminClient, NotFound
from penstock.cli.bench_figures import NUMBER_BYTES, Figure, Plan, Report, limits
from penstock.cli.bench_load import MEASUREMENTS, Bench, Measurement, is_stopped, measure
from penstock.cli.connection import BrokerTarget, mqtt_options
from penstock.cli.inputs import confirm, yes_option
from penstock.cli.interrupts import signals_as_input
from penstock.cli.output import json_option, print_result
from penstock.cli.progress import progress_bar
from penstock.errors import PenstockError
from penstock.limits import MIB

TOPICS: Final = "topics"
_EXIT_INTERRUPTED: Final = 128 + 2  # as for a program that SIGINT ended


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="Take so long for each of the five measurements.",
)
@click.option(
    "--clients",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    metavar="NUMBER",
    help="Publish durably from so many processes.",
)
@click.option(
    "--rate",
    type=click.IntRange(1, 20_000),
    default=1_000,
    show_default=True,
    metavar="NUMBER",
    help="Messages per second at which delivery is timed.",
)
@click.option(
    "--payload",
    "payload_bytes",
    type=click.IntRange(NUMBER_BYTES, MIB),
    default=100,
    show_default=True,
    metavar="BYTES",
    help="Size of a message; each has other contents.",
)
@yes_option
@json_option
@mqtt_options
def bench(
    target: BrokerTarget, *, seconds: float, clients: int, rate: int, payload_bytes: int
) -> None:
    """Measure a running broker from this machine.

    Durable publishes one at a time and many at once, delivery at a modest rate and flat out, and
    jobs. It uses topics bench/RUN/... and deletes them. Ctrl-C prints the figures so far.
    """
    plan = Plan(
        run=secrets.token_hex(4),
        seconds=seconds,
        clients=clients,
        rate=rate,
        payload_bytes=payload_bytes,
    )
    is_local = all(server.is_loopback for server in target.servers)
    if not is_local:
        where = ", ".join(map(str, target.servers))
        confirm(f"Load {where} as much as it takes, for about {5 * seconds:.0f} s?")
    report = Report(
        broker=str(target.server), plan=plan, figures=[], limits=limits(is_local=is_local)
    )
    target.mqtt().close()  # who cannot connect is told so once
    with signals_as_input() as stop:
        _measure_all(report, target, stop)
    _clean_up(report, target)
    print_result(report, report.text())
    if report.interrupted:
        click.get_current_context().exit(_EXIT_INTERRUPTED)
    if any(figure.error for figure in report.figures):
        raise PenstockError("not everything could be measured", "see the lines of errors above")


def _measure_all(report: Report, target: BrokerTarget, stop: int) -> None:
    for number, measurement in enumerate(MEASUREMENTS, 1):
        figure = _with_progress(
            report.plan, f"{number}/{len(MEASUREMENTS)}", target, stop, measurement
        )
        report.figures.append(figure)
        if is_stopped(stop):
            report.interrupted = True
            return


def _with_progress(
    plan: Plan, label: str, target: BrokerTarget, stop: int, measurement: Measurement
) -> Figure:
    title = measurement[1](plan)
    if sys.stderr.isatty():
        click.echo(title, err=True)
    with progress_bar(label) as show:
        return measure(Bench(plan, target, stop, _in_steps(plan, show)), measurement)


def _in_steps(plan: Plan, show: Callable[[int, int], None]) -> Callable[[float], None]:
    """Draw the bar at most fifty times: the terminal must not slow down what is measured."""
    steps, drawn = 50, 0

    def tell(took_s: float) -> None:
        nonlocal drawn
        reached = min(int(took_s / plan.seconds * steps), steps)
        if reached > drawn:
            drawn = reached
            show(reached, steps)

    return tell


def _clean_up(report: Report, target: BrokerTarget) -> None:
    """Delete the topics of the run; what cannot be deleted is in the report.

    They are not looked up: a list leaves out what the user may not read.
    """
    broker = AdminClient(target)
    left = [topic for figure in report.figures for topic in report.plan.topics(figure.name)]
    try:
        for name in tuple(left):
            with suppress(NotFound):  # nothing came of it, or its messages are not journaled
                broker.change("DELETE", TOPICS, name=name)
                report.topics_deleted += 1
            left.remove(name)
    except PenstockError as error:
        report.topics_left, report.why_left = left, error.message
