"""``penstock spark demo``: the whole pipeline in a few minutes, and a report of it."""

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


class _Narrator:
    """Tells what happens on a terminal; in a log, without the figures in between."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._status = console.status("")
        self._number = 0

    def step(self, what: str, why: str) -> None:
        """Begin a numbered paragraph."""
        self._number += 1
        self._console.print(f"[bold]{self._number}. {what}[/bold]: {why}.")

    def status(self, text: str) -> None:
        """Show how it goes, in a line that is written over."""
        self._status.update(text)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._status.stop()


@click.command()
@click.option(
    "--minutes", type=float, default=2.0, show_default=True, help="How long the fleet speaks."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="penstock-demo",
    show_default=True,
    help="Where the report goes.",
)
@click.option("--devices", type=int, default=24, show_default=True, help="How many sensors.")
@click.option("--seed", type=int, default=1, show_default=True, help="What the sensors say.")
@click.option("--keep", is_flag=True, help="Keep journal, archive and logs, in OUT/work.")
@click.option("--no-kill", is_flag=True, help="Let the driver live.")
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
    """Show the data pipeline at work, on this machine alone.

    Starts a broker and a fleet of signed sensors, archives, rolls up and watches what they say with
    Spark, kills Spark's driver in the middle, audits, and draws a report. The exit status is 1 if
    the audit finds anything lost, doubled or forged.
    """
    with advice():
        for needed in ("pyspark", "pyarrow", "matplotlib", "rich"):
            import_module(needed)
    from rich.console import Console  # noqa: PLC0415 - of the extra

    from penstock.spark.demo.run import Settings, run_demo, write_report  # noqa: PLC0415 - the same

    settings = Settings(
        out=out, minutes=minutes, devices=devices, seed=seed, keep=keep, with_kill=not no_kill
    )
    console = Console(highlight=False)
    # Asked to end, it ends its children first; the default would leave a broker and Spark behind.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    with _Narrator(console) as narrator:
        story = run_demo(settings, narrator)
        narrator.step("Drawing", "the same numbers as a page, as a picture and as JSON")
        paths = write_report(story, out)
    console.print(_verdict(story))
    for path in paths:
        console.print(f"  {path}", soft_wrap=True, markup=False)
    if is_open:
        webbrowser.open(paths[0].resolve().as_uri())
    if not story.is_good:
        context.exit(1)


def _verdict(story: "DemoResults") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - of the extra

    good = "[green]Nothing was lost, nothing came twice."
    table = Table(title=good if story.is_good else "[red]Something is wrong.", title_justify="left")
    table.add_column("")
    table.add_column("checked")
    table.add_column("expected", justify="right")
    table.add_column("found", justify="right")
    for check in story.checks:
        mark = "[green]✓" if check.is_good else "[red]✗"
        table.add_row(mark, check.claim, check.expected, check.found)
    return table
