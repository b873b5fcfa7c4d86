"""Which worker runs which tests, and when: file by file, those that take longest first.

xdist's own order for ``--dist loadfile`` begins with the files that have most tests. These are the
quick ones, and in the end one worker after the other would have nothing left to do while the last
waits for its processes. Here a run begins with what takes long, most of which is waiting, and ends
with thousands of short tests, which fill every gap.

The tests that share one session of Spark count as one file.
"""

from collections import OrderedDict
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

__all__ = ["LONG", "SPARK", "WITH_PROCESSES", "ByTime", "rank", "scope"]

SPARK = "tests/spark/"
"""Where the tests are that share one session of Spark, and the name of all of them together."""

LONG = (
    SPARK,
    "tests/clients/test_kills.py",
    "tests/clients/node/test_node_client.py",
    "tests/e2e/test_cluster_snapshot.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_demo.py",
    "tests/clients/test_scenarios.py",
    "tests/e2e/test_access_cluster.py",
    "tests/e2e/test_cluster_by_command.py",
    "tests/console/test_pages.py",
    "tests/chaos/test_chaos_short.py",
    "tests/spark/test_kills.py",
    "tests/spark/test_run_command.py",
    "tests/e2e/test_cluster_try.py",
    "tests/e2e/test_cluster_members.py",
    "tests/clients/test_queue_work.py",
    "tests/e2e/test_schedules_kill.py",
    "tests/console/test_size.py",
    "tests/cluster/test_sync_before_ack.py",
    "tests/spark/test_java_from_pip.py",
)
"""The files that take longest, the longest first. Those of Spark have drivers of their own."""

WITH_PROCESSES = (
    "tests/clients/",
    "tests/console/",
    "tests/e2e/",
    "tests/cluster/",
    "tests/chaos/",
    "tests/anomaly/",
    "tests/signing/",
    "tests/conformance_binary/",
    "tests/kernel/",
    "tests/tasks/",
    "tests/tls/",
    "tests/tidy/",
)
"""Where tests start processes, or take seconds for other reasons: after those that take longest."""


def scope(nodeid: str) -> str:
    """What is run by one worker: the tests of a file, or all that use the session of Spark."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(SPARK) and file not in LONG else file


def rank(scope: str, tests: int) -> tuple[int, int]:
    """Whatever has the lowest is begun first."""
    if scope in LONG:
        return LONG.index(scope) - len(LONG), 0
    return 0 if scope.startswith(WITH_PROCESSES) else 1, -tests


class ByTime(LoadFileScheduling):
    """``--dist loadfile``, in this order."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._places: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        """As in the base class, which would search all tests for the place of each."""
        if not self._places:
            self._order()
        name, unit = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[name] = unit
        node.send_runtest_some(
            [self._places[test] for test, is_done in unit.items() if not is_done]
        )

    def _order(self) -> None:
        """Put everything into its order: once, before the first worker gets anything."""
        assert self.collection is not None
        self._places = {test: place for place, test in enumerate(self.collection)}
        units = sorted(self.workqueue.items(), key=lambda unit: rank(unit[0], len(unit[1])))
        self.workqueue = OrderedDict(units)
