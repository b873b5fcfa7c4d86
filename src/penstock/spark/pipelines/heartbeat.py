"""Heartbeats: empty messages on their own topic that advance the event time of a stream."""

import threading
import time
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

from penstock.client import connect
from penstock.errors import PenstockError
from penstock.spark.login import login_of

HEARTBEATS: Final = "penstock/heartbeat"  # above the heartbeats of all jobs


class JobHeartbeat:
    """Publishes to a topic every ``period_s``, while a query runs."""

    def __init__(self, servers: str, name: str, period_s: float) -> None:
        self.topic = f"{HEARTBEATS}/{name}"
        self._servers = [server.strip() for server in servers.split(",")]
        self._period_s = period_s

    def beat(self) -> None:
        with connect(self._servers, **login_of({}).keywords()) as client:
            client.produce(self.topic, b"")

    def follow(self, query: StreamingQuery) -> None:
        threading.Thread(target=self._run, args=(query,), name=self.topic, daemon=True).start()

    def _run(self, query: StreamingQuery) -> None:
        with suppress(Py4JError, OSError):  # the session is gone, and the query with it
            while query.isActive:
                with suppress(PenstockError, OSError):  # the broker is away
                    self.beat()
                time.sleep(self._period_s)
