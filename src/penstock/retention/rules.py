"""Retention rules: from the configuration and the settings of topics to what the store enforces.

A new kind of rule is a field of ``config.schema.RetentionRule``, of ``store.RetentionLimits`` and a
check in ``store/retention``; this module converts the one to the other.
"""

from collections.abc import Callable

import msgspec

from penstock.config.schema import Config
from penstock.core.broker import Broker
from penstock.core.subscriptions import SubscriptionTrie
from penstock.limits import MIB
from penstock.model.queue_names import PREFIX, WORKERS, is_queue
from penstock.model.stages import PREFIX as STAGES
from penstock.store.store import (
    ProtectedTopics,
    RetentionLimits,
    RetentionRules,
    TopicRetentionRule,
)
from penstock.trust.touched import AUDIT_PREFIX, EVENTS_PREFIX

AUDIT_AGE_MS = 400 * 24 * 3600 * 1000
AUDIT_BYTES_MAX = 64 * MIB

EVENTS_MESSAGES_MAX = 100_000
EVENTS_BYTES_MAX = 64 * MIB

_AUDIT = TopicRetentionRule(
    lambda topic: topic.startswith(AUDIT_PREFIX),
    RetentionLimits(age_ms_max=AUDIT_AGE_MS, bytes_max=AUDIT_BYTES_MAX),
)
"""Whoever may configure retention could otherwise have the audit log forget."""

_EVENTS = TopicRetentionRule(
    lambda topic: topic.startswith(EVENTS_PREFIX),
    RetentionLimits(messages_max=EVENTS_MESSAGES_MAX, bytes_max=EVENTS_BYTES_MAX),
)


def configured_rules(config: Config) -> RetentionRules:
    retention = config.retention
    return RetentionRules(
        default=_limits(retention.messages_max, retention.age_s_max, retention.bytes_max),
        rules=(
            _AUDIT,
            _EVENTS,
            *(
                TopicRetentionRule(
                    _matcher(rule.filter),
                    _limits(rule.messages_max, rule.age_s_max, rule.bytes_max),
                )
                for rule in retention.rules
            ),
        ),
        total_bytes_max=config.journal.total_bytes_max,
    )


def with_topic_limits(rules: RetentionRules, broker: Broker) -> RetentionRules:
    """Add the size limits of single topics.

    Their limits by count and age are exact, and reach the store as a low-water mark instead.
    """
    sizes = {t.name: RetentionLimits(bytes_max=t.max_bytes) for t in broker.topics if t.max_bytes}
    return msgspec.structs.replace(rules, by_topic=sizes)


def protected_topics(broker: Broker, floors: dict[bytes, int]) -> ProtectedTopics:
    """Topics exempt from the default limits: unfinished work of queues, staged rows, the audit log.

    ``floors``: per queue topic, the offset from which on work is unfinished.
    """
    queues = {
        topic: groups[WORKERS].oldest_unsettled
        for topic, groups in broker.groups.by_topic.items()
        if is_queue(topic) and WORKERS in groups
    }
    return ProtectedTopics(PREFIX, queues | floors, (STAGES,), (AUDIT_PREFIX,))


def _limits(messages_max: int, age_s_max: int, bytes_max: int) -> RetentionLimits:
    return RetentionLimits(messages_max or None, age_s_max * 1000 or None, bytes_max or None)


def _matcher(topic_filter: str) -> Callable[[bytes], bool]:
    trie: SubscriptionTrie[str] = SubscriptionTrie()
    trie.subscribe(topic_filter.encode(), topic_filter, 0)
    return lambda topic: bool(trie.match(topic))
