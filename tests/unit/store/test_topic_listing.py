"""Topics are listed by name, wherever they are, and the cost is that of what is listed."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.test_store_conformance import checkpoint

from penstock.store.batch import Batch
from penstock.store.keys import NAME_BYTES_WHOLE
from penstock.store.topics import StoredTopic, TopicStates

LONG = b"x" * NAME_BYTES_WHOLE
NAMES = [b"a", b"a!", b"a/b", LONG, LONG + b"/2", LONG + b"/1", LONG + b"0", b"y", b"z/1"]


def write(store, names):
    batch = Batch()
    for name in names:
        batch.append(name, [b"x"], 1_000, 1)
    batch.checkpoint = store.next_index - 1
    store.commit(batch)


def names(store, *given):
    return [info.name for info in store.topics(*given)]


@pytest.mark.parametrize("written", [0, 4, len(NAMES)])
def test_the_order_is_that_of_names_whichever_have_rows(open_store, written):
    store = open_store()
    if written:
        write(store, NAMES[::-1][:written])
        checkpoint(store)
        store.fold()
    write(store, NAMES)
    for _ in range(2):
        assert names(store) == sorted(NAMES)
        for after in sorted(NAMES):
            assert names(store, b"", after) == [name for name in sorted(NAMES) if name > after]
            assert names(store, after) == [n for n in sorted(NAMES) if n.startswith(after)]
        assert names(store, LONG + b"/") == [LONG + b"/1", LONG + b"/2"]
        store = open_store()


def test_a_dropped_topic_is_not_listed_and_one_that_came_again_is(open_store):
    store = open_store()
    write(store, [b"a", b"b"])
    batch = Batch()
    batch.drop(b"a")
    batch.drop(b"b")
    batch.append(b"b", [b"x"], 1_000, 1)
    store.commit(batch)
    assert names(store) == [b"b"]


def test_the_first_of_many_costs_no_look_at_the_others(open_store, monkeypatch):
    store = open_store()
    for first in range(0, 4_000, 1_000):
        write(store, [b"t/%05d" % number for number in range(first, first + 1_000)])
    store.topics()
    looks = []
    view = TopicStates.view
    monkeypatch.setattr(
        TopicStates, "view", lambda self, name: looks.append(name) or view(self, name)
    )
    assert next(store.topics(b"t/", b"t/02500")).name == b"t/02501"
    assert len(list(islice(store.topics(b"t/", b"t/01000"), 5))) == 5
    assert len(looks) <= 6


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "drop", "row", "look"]), st.integers(0, 300)), max_size=60
    )
)
def test_new_topics_are_known_in_order_until_they_have_rows(steps):
    states, expected = TopicStates(), set()
    for topic_id, (step, number) in enumerate(steps, 1):
        many = [b"%d" % each for each in range(number, number * 2 + 1)]
        if step == "look":
            assert expected <= set(states.new.ordered())
        elif step == "add":
            with states.lock:
                for name in many:
                    states.begin(StoredTopic(topic_id, name))
            expected |= set(many)
        elif step == "row":
            states.have_rows([StoredTopic(topic_id, name) for name in many])
            expected -= set(many)
        elif many[0] in expected:
            with states.lock:
                states.remove(StoredTopic(topic_id, many[0]))
            expected.discard(many[0])
        found = list(states.new.ordered())
        assert found == sorted(set(found))
        assert expected <= set(found)
        assert len(found) <= 2 * len(expected)
