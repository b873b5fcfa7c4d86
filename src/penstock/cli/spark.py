"""``penstock spark``: commands that need the extra ``penstock-mq[spark]``."""

from typing import Final

import click

from penstock.cli.lazy import LazyGroup

SUBCOMMANDS: Final = {
    "cluster": ("penstock.cli.spark_cluster:cluster", "Run a Spark cluster on this machine."),
    "demo": ("penstock.cli.spark_demo:demo", "Run the whole pipeline as a demo, with a report."),
    "doctor": ("penstock.cli.spark_doctor:doctor", "Check the requirements of Spark."),
    "files": ("penstock.cli.spark_files:files", "List the current files of an archive."),
    "readers": ("penstock.cli.readers:readers", "List streams and how far they are behind."),
    "run": ("penstock.cli.spark_run:run", "Run a pipeline."),
    "sinks": ("penstock.cli.sinks:sinks", "List sinks, or forget one."),
}


@click.group(cls=LazyGroup, table=SUBCOMMANDS)
def spark() -> None:
    """Run data pipelines on Spark."""
