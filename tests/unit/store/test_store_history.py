"""Histories: messages of all topics that match a filter, in the order in which they came."""

from random import Random

import pytest
from tests.unit.store.conftest import make_store

from penstock.core.subscriptions import SubscriptionTrie
from penstock.model.history_start import HistoryStart
from penstock.model.message import Extras
from penstock.model.stages import PREFIX
from penstock.staging.visible_store import VisibleStore
from penstock.store.batch import Batch
from penstock.store.history import History
from penstock.store.store import RetentionRequest, RetentionRules

MANY = 1_000_000
TOPICS = [b"s/%d/t" % number for number in range(7)] + [b"other", b"s"]


@pytest.fixture(params=["memory", "lmdb", "blocks"])
def store(request, tmp_path):
    made = make_store(request.param, tmp_path / "data")
    made.kind = request.param
    yield made
    made.close()


def matcher(topic_filter):
    trie = SubscriptionTrie()
    trie.subscribe(topic_filter, None, 0)
    return lambda topic: bool(trie.match(topic))


def put(store, *messages, time_ms=1):
    batch = Batch()
    for topic, payload in messages:
        batch.append(topic, [payload], time_ms, 1)
    store.commit(batch)


def fill(store, count=120, seed=5):
    random = Random(seed)
    for number in range(count):
        some = random.choices(TOPICS, k=random.randint(1, 9))
        put(store, *((topic, b"%d" % number * 3) for topic in some), time_ms=number)
        if number == count * 2 // 3:
            fold(store)


def fold(store):
    if store.kind == "blocks":
        store.retain(RetentionRequest(RetentionRules(), 0, MANY))


def read(store, history, low=0, count_max=MANY, bytes_max=MANY):
    found, end = [], store.next_sequence
    while low < end:
        step = store.read_history(history, low, end, count_max, bytes_max)
        assert low < step.next_sequence <= end
        assert len(step.messages) <= 2 * count_max + 1
        found += step.messages
        low = step.next_sequence
    return found


def of(topic_filter, horizon=0, **start):
    return History(topic_filter, matcher(topic_filter), HistoryStart(**start), horizon)


def stored(store, topic_filter):
    matches = matcher(topic_filter)
    found = store.read(range(store.next_sequence))
    return [m for m in found if m is not None and matches(m.topic)]


@pytest.mark.parametrize("topic_filter", [b"#", b"s/#", b"s/+/t", b"s/3/t", b"nothing/#", b"no"])
@pytest.mark.parametrize("bounds", [(MANY, MANY), (3, MANY), (MANY, 20), (1, 1)])
def test_a_history_has_what_matches_in_order_and_once(store, topic_filter, bounds):
    fill(store)
    assert read(store, of(topic_filter), 0, *bounds) == stored(store, topic_filter)


def test_a_history_begins_where_it_is_told(store):
    fill(store)
    whole = stored(store, b"s/#")
    low = whole[20].sequence
    assert read(store, of(b"s/#"), low) == whole[20:]
    assert read(store, of(b"s/#", since_ms=70)) == [m for m in whole if m.time_ms >= 70]
    assert read(store, of(b"s/#", offset=9), 0, 5) == [m for m in whole if m.offset >= 9]


def test_the_last_messages_are_counted_per_topic(store):
    fill(store)
    put(store, (b"s/rare", b"alone"))
    found = read(store, of(b"s/#", last=4), 0, 6)
    assert found == sorted(found, key=lambda m: m.sequence)
    by_topic = {topic: [m for m in found if m.topic == topic] for topic in (*TOPICS, b"s/rare")}
    for topic, messages in by_topic.items():
        expected = [m for m in stored(store, b"s/#") if m.topic == topic]
        assert messages == expected[-4:]


def test_the_last_messages_at_a_horizon_are_the_same_however_the_topics_have_grown(store):
    fill(store, count=60)
    horizon = store.next_sequence - 1
    before = read(store, of(b"s/#", last=3))
    fill(store, count=60, seed=9)
    fold(store)
    after = read(store, of(b"s/#", horizon, last=3))
    assert after == before + [m for m in stored(store, b"s/#") if m.sequence > horizon]


def test_deleted_messages_do_not_count_among_the_last(store):
    put(store, *((b"t", b"%d" % number) for number in range(10)))
    fold(store)
    store.delete(b"t", [5, 8, 9])
    assert [m.offset for m in read(store, of(b"t", last=4))] == [3, 4, 6, 7]


def test_topics_created_while_it_is_read_belong_to_it(store):
    fill(store, count=30)
    history = of(b"s/#")
    found = read(store, history, 0, 4)
    low = store.next_sequence
    put(store, (b"s/new", b"1"), (b"foreign", b"2"), (b"s/new", b"3"))
    fold(store)
    found += read(store, history, low, 1)
    assert found == stored(store, b"s/#")
    assert [m.payload for m in found[-2:]] == [b"1", b"3"]


def test_removed_messages_and_dropped_topics_are_left_out(store):
    put(store, *((topic, b"%d" % number) for number in range(9) for topic in (b"s/a", b"s/b")))
    history = of(b"s/#")
    step = store.read_history(history, 0, store.next_sequence, 2, MANY)
    fold(store)
    store.trim(b"s/a", 6)
    batch = Batch()
    batch.drop(b"s/b")
    batch.append(b"s/b", [b"again"], 1, 1)
    store.commit(batch)
    found = read(store, history, step.next_sequence)
    assert [(m.topic, m.offset) for m in found] == [(b"s/a", n) for n in (6, 7, 8)] + [(b"s/b", 0)]


def test_extras_and_flags_come_along(store):
    extras = Extras(headers=((b"k", b"v"),), expires_ms=99)
    batch = Batch()
    batch.append(b"t", [b"1", b"2"], 5, 2, [None, extras])
    store.commit(batch)
    fold(store)
    first, second = read(store, of(b"t"))
    assert (first.extras, first.qos) == (None, 2)
    assert (second.extras, second.qos, second.time_ms) == (extras, 2, 5)


def test_one_message_larger_than_the_answer_is_read_all_the_same(store):
    put(store, (b"t", b"x" * 5_000), (b"t", b"y" * 5_000), (b"u", b"z"))
    fold(store)
    assert [m.payload[:1] for m in read(store, of(b"#"), 0, MANY, 100)] == [b"x", b"y", b"z"]


def test_staged_rows_are_in_no_history(store):
    put(store, (PREFIX + b"sink/part", b"hidden"), (b"t", b"seen"))
    hidden = of(PREFIX + b"#")
    assert read(store, hidden)
    assert read(VisibleStore(store), of(PREFIX + b"#")) == []
