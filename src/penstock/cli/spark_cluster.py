"""``penstock spark cluster``: a master and workers on this machine, to try ``--master`` with."""

import signal
import threading

import click

from penstock.errors import PenstockError
from penstock.spark.cluster import SparkCluster

LOOK_S = 1.0
"""How often it is looked whether all of them still run."""


@click.command()
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--cores", type=click.IntRange(1), default=1, show_default=True, help="Of a worker.")
@click.option("--memory", default="1g", show_default=True, help="Of a worker, for its executors.")
def cluster(workers: int, cores: int, memory: str) -> None:
    """Run a cluster of Spark's own kind on this machine, until Ctrl-C.

    To try what a job does on more than one worker: it prints what to give as --master. It listens
    on the loopback only, and anybody on this machine may use it.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with SparkCluster(workers, cores=cores, memory=memory) as running:
        click.echo(f"--master {running.url}")
        while not stop.wait(LOOK_S):
            if not running.is_alive():
                raise PenstockError("a process of the cluster has ended", "start it again")
