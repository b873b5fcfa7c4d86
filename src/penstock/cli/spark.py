"""``penstock spark``: what needs the extra ``penstock-mq[spark]``, imported when it is called."""

from typing import Final

import click

from penstock.cli.lazy import LazyGroup

SUBCOMMANDS: Final = {
    "cluster": ("penstock.cli.spark_cluster:cluster", "Run a cluster of Spark's on this machine."),
    "demo": ("penstock.cli.spark_demo:demo", "Show it all at work, and draw a report."),
    "doctor": ("penstock.cli.spark_doctor:doctor", "Say what Spark needs, and what is missing."),
    "files": ("penstock.cli.spark_files:files", "List the files that are an archive now."),
    "run": ("penstock.cli.spark_run:run", "Run a pipeline by its name."),
    "sinks": ("penstock.cli.sinks:sinks", "List what tables were written to topics; forget one."),
}
"""Subcommand → where it is, and what ``--help`` says about it."""


@click.group(cls=LazyGroup, table=SUBCOMMANDS)
def spark() -> None:
    """Run data pipelines on Spark."""
