"""``penstock spark cluster``: a Spark master and workers on this machine, to try ``--master``."""

import signal
import threading

import click

from penstock.errors import PenstockError
from penstock.spark.cluster import SparkCluster

POLL_S = 1.0


@click.command()
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--cores", type=click.IntRange(1), default=1, show_default=True, help="Per worker.")
@click.option("--memory", default="1g", show_default=True, help="Per worker, for its executors.")
def cluster(workers: int, cores: int, memory: str) -> None:
    """Run a standalone Spark cluster on this machine, until Ctrl-C.

    To try a job on more than one worker. Prints the value for --master. It listens on loopback
    only; anyone on this machine can use it.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with SparkCluster(workers, cores=cores, memory=memory) as running:
        click.echo(f"--master {running.url}")
        while not stop.wait(POLL_S):
            if not running.is_alive():
                raise PenstockError(
                    "a process of the cluster has exited", "start the cluster again"
                )
