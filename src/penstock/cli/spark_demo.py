"""``penstock spark demo``: the whole pipeline in a few minutes, with a report."""

import signal
import sys
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from penstock.cli.spark_run import advice

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from penstock.spark.demo.results import DemoResults


class _DemoProgress:
    """Prints the steps of the demo, with a status line on a terminal."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._status = console.status("")
        self._number = 0

    def step(self, what: str, why: str) -> None:
        self._number += 1
        self._console.print(f"[bold]{self._number}. {what}[/bold]: {why}.")

    def status(self, text: str) -> None:
        self._status.update(text)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._status.stop()


@click.command()
@click.option(
    "--minutes", type=float, default=2.0, show_default=True, help="How long the sensors publish."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="penstock-demo",
    show_default=True,
    help="Directory for the report.",
)
@click.option("--devices", type=int, default=24, show_default=True, help="Number of sensors.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the sensor values.")
@click.option("--keep", is_flag=True, help="Keep journal, archive and logs in OUT/work.")
@click.option("--no-kill", is_flag=True, help="Do not kill the driver.")
@click.option("--open", "is_open", is_flag=True, help="Open the report in a browser.")
@click.pass_context
def demo(
    context: click.Context,
    *,
    minutes: float,
    out: Path,
    devices: int,
    seed: int,
    keep: bool,
    no_kill: bool,
    is_open: bool,
) -> None:
    """Demonstrate the data pipeline on this machine.

    Starts a broker and sensors that sign their messages; archives, aggregates and monitors them
    with Spark; kills the Spark driver halfway; audits the result and writes a report. Exits with 1
    if the audit finds a lost, duplicated or forged message.
    """
    with advice():
        for needed in ("pyspark", "pyarrow", "matplotlib", "rich"):
            import_module(needed)
    from rich.console import Console  # noqa: PLC0415 - in the extra

    from penstock.spark.demo.run import Settings, run_demo, write_report  # noqa: PLC0415 - the same

    settings = Settings(
        out=out, minutes=minutes, devices=devices, seed=seed, keep=keep, with_kill=not no_kill
    )
    console = Console(highlight=False)
    # Exit normally on SIGTERM, so that the broker and Spark are stopped first.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    with _DemoProgress(console) as steps:
        story = run_demo(settings, steps)
        steps.step("Writing the report", "as a page, as a picture and as JSON")
        paths = write_report(story, out)
    console.print(_verdict(story))
    for path in paths:
        console.print(f"  {path}", soft_wrap=True, markup=False)
    if is_open:
        webbrowser.open(paths[0].resolve().as_uri())
    if not story.is_good:
        context.exit(1)


def _verdict(story: "DemoResults") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - in the extra

    good = "[green]No message was lost or duplicated."
    table = Table(title=good if story.is_good else "[red]Something is wrong.", title_justify="left")
    table.add_column("")
    table.add_column("checked")
    table.add_column("expected", justify="right")
    table.add_column("found", justify="right")
    for check in story.checks:
        mark = "[green]✓" if check.is_good else "[red]✗"
        table.add_row(mark, check.claim, check.expected, check.found)
    return table
