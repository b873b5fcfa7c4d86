"""Runs retention: scans the topics, then removes messages on the writer thread.

A scan and a slice of removals run about once a second, and at once if there is more to remove.
"""

import asyncio
from functools import partial

from penstock.clock import Clock
from penstock.commit.pipeline import Pipeline
from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.errors import StorageError
from penstock.obs.counters import Counters
from penstock.obs.log import get_logger
from penstock.retention.missed import MissedMessages
from penstock.retention.rules import configured_rules, protected_topics, with_topic_limits
from penstock.retention.scan import RetentionScan, ScannedTopics
from penstock.store.store import RetentionRequest, RetentionRules, Store

INTERVAL_S = 1.0  # between two slices when there is little to do

_log = get_logger("retention")


class RetentionRunner:
    """Retention of one broker."""

    def __init__(
        self,
        *,
        config: Config,
        broker: Broker,
        store: Store,
        pipeline: Pipeline,
        topics: ScannedTopics,
        clock: Clock,
        counters: Counters,
    ) -> None:
        self._broker = broker
        self._store = store
        self._pipeline = pipeline
        self._topics = topics
        self._clock = clock
        # counts the messages that groups missed; called on the writer thread
        self.removed = MissedMessages(broker, counters, asyncio.get_running_loop()).removed
        self._rules = configured_rules(config)
        self._rules_version = -1  # of the topic settings that ``_rules`` contains
        self._scan: RetentionScan | None = None
        self._due_at = clock.monotonic()

    def turn(self, now: float) -> bool:
        """Begin a scan if one is due; return whether it was."""
        if now < self._due_at:
            return False
        self._due_at = now + INTERVAL_S
        if self._scan is None or self._scan.is_over:
            self._scan = RetentionScan(self._broker, self._topics, self._scanned)
            self._scan.run()
        return True

    def _scanned(self, scan: RetentionScan) -> None:
        floor = self._broker.oldest_needed() or self._pipeline.next_sequence
        protected = protected_topics(self._broker, scan.floors)
        request = RetentionRequest(
            self._current_rules(), self._clock.wall_ms(), floor, protected, scan.lows()
        )
        self._pipeline.run_on_writer(partial(self._remove, request))

    def _current_rules(self) -> RetentionRules:
        version = self._broker.topics.version
        if self._rules_version != version:
            self._rules_version = version
            self._rules = with_topic_limits(self._rules, self._broker)
        return self._rules

    def _remove(self, request: RetentionRequest) -> None:
        # on the writer thread
        try:
            removed = self._store.retain(request)
        except StorageError as error:
            _log.warning("retention_failed", error=error.message)
            return
        if removed.more:
            self._due_at = 0.0  # more at the next turn
        if removed.messages:
            self.removed(removed)
