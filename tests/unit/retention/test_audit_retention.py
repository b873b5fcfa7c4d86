"""How long the audit log is kept: 400 days and 64 MiB, whatever is configured for other topics."""

import pytest
from tests.unit.store.test_store_conformance import batch_of, checkpoint

from penstock.access.audit import TOPIC
from penstock.core.broker import Broker
from penstock.limits import MIB
from penstock.obs.counters import Counters
from penstock.retention.rules import configured_rules, protected_topics, with_topic_limits
from penstock.store.blocks.folder import inline_folder
from penstock.store.lmdb_store import LmdbStore
from penstock.store.memory import MemoryStore
from penstock.store.store import RetentionRequest
from penstock.testing.settings import settings

DAY_MS = 24 * 3600 * 1000
NOBODY_WAITS = 10**9
GREEDY = {
    "messages_max": 1,
    "age_s_max": "1h",
    "rules": [{"filter": "#", "messages_max": 1}, {"filter": "$audit/#", "messages_max": 1}],
}


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
    is_memory = request.param == "memory"
    made = MemoryStore() if is_memory else LmdbStore(tmp_path / "data", MIB, inline_folder)
    yield made
    made.close()


def retain(store, now_ms, **options):
    """Retention as a broker with these settings does it, until nothing is left to do."""
    broker = Broker(Counters(), inflight_max=2, queue_messages_max=3, queue_drops_oldest=True)
    rules = with_topic_limits(configured_rules(settings(options, None, 0)), broker)
    for _ in range(1_000):
        request = RetentionRequest(rules, now_ms, NOBODY_WAITS, protected_topics(broker, {}))
        if not store.retain(request).more:
            return
    pytest.fail("retention does not come to an end")


def kept(store, topic=TOPIC):
    info = store.topic(topic)
    return info.next_offset - info.first_offset


def test_records_are_kept_for_400_days(store):
    for day in range(5):
        store.commit(batch_of((TOPIC, b"record"), time_ms=1 + day * DAY_MS))
    checkpoint(store)
    retain(store, 400 * DAY_MS)
    assert kept(store) == 5
    retain(store, 401 * DAY_MS + 1)
    assert kept(store) == 3


def test_whoever_configures_retention_cannot_have_the_log_forget(store):
    for _ in range(5):
        store.commit(batch_of((TOPIC, b"record"), (b"t", b"message")))
    checkpoint(store)
    retain(store, DAY_MS, retention=GREEDY)
    assert (kept(store), kept(store, b"t")) == (5, 0)


def test_the_bound_of_the_journal_spares_the_log(store):
    for _ in range(8):
        store.commit(batch_of((TOPIC, b"record"), (b"t", bytes(MIB))))
    checkpoint(store)
    retain(store, 2_000, journal={"total_bytes_max": 2 * MIB})
    assert kept(store) == 8
    assert kept(store, b"t") <= 2


def test_the_log_is_bounded_by_64_mib(store):
    for _ in range(80):
        store.commit(batch_of((TOPIC, bytes(MIB))))
    checkpoint(store)
    retain(store, 2_000)
    assert 62 <= kept(store) <= 64
