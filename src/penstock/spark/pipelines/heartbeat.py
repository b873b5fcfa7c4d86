"""Heartbeats: messages that say nothing but what time it is, for a stream that lives by event time.

They go to a topic of their own, which the stream reads along with the others. A beat that fails is
left out: the next one says more. While no broker answers, there is nothing to be told anyway.
"""

import threading
import time
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client import connect
from penstock.errors import PenstockError

HEARTBEATS: Final = "penstock/heartbeat"
"""The topic above the heartbeats of all jobs."""


class Heartbeat:
    """Publishes to a topic every ``period_s``, for as long as a query runs."""

    def __init__(self, servers: str, name: str, period_s: float) -> None:
        self.topic = f"{HEARTBEATS}/{name}"
        self._servers = [server.strip() for server in servers.split(",")]
        self._period_s = period_s

    def beat(self) -> None:
        """Publish once; it returns when the broker has it on disk."""
        with connect(self._servers) as client:
            client.produce(self.topic, b"")

    def follow(self, query: StreamingQuery) -> None:
        """Beat in a thread of its own, until the query has ended."""
        threading.Thread(target=self._run, args=(query,), name=self.topic, daemon=True).start()

    def _run(self, query: StreamingQuery) -> None:
        with suppress(Py4JError, OSError):  # the session is gone, and the query with it
            while query.isActive:
                with suppress(PenstockError, OSError):  # the broker is away: that passes
                    self.beat()
                time.sleep(self._period_s)
