"""A level of the tree of topics is what the names say, in any order of bytes, at any page."""

from itertools import islice
from operator import itemgetter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.reading.tree import CHILDREN_MAX, Level, Looks
from penstock.store.batch import Batch
from penstock.store.memory import MemoryStore
from penstock.store.store import TopicInfo

LABELS = st.sampled_from(["", "a", "b", "b!", "b!!", "b-", "b.c", "b0", "é", "~"])
NAMES = st.sets(
    st.lists(LABELS, min_size=1, max_size=4).map(lambda labels: "/".join(labels).encode()),
    max_size=30,
).map(lambda names: names - {b""})


class Names:
    """Sorted names that count how often they are looked at."""

    def __init__(self, names):
        self.names = sorted(names)
        self.looks = 0

    def topics(self, prefix=b"", after=b""):
        for name in self.names:
            if name > after and name.startswith(prefix):
                self.looks += 1
                yield TopicInfo(1, name, 0, 1, 1, 0)


def expected(names, prefix):
    """By the definition: labels, whether there is a topic, and how many topics are below."""
    found = {}
    for name in names:
        if name.startswith(prefix):
            label, slash, _ = name[len(prefix) :].partition(b"/")
            is_topic, below = found.get(label, (False, 0))
            found[label] = (is_topic or not slash, below + bool(slash))
    return sorted((label, *what) for label, what in found.items())


def shown(nodes):
    return [(node.label, node.topic is not None, node.children) for node in nodes]


def test_a_branch_may_begin_behind_a_greater_label():
    names = [b"a/b", b"a/b!", b"a/b/c", b"x", b"y!", b"y/z"]
    assert shown(Level(Names(names), b"a/")) == [(b"b", True, 1), (b"b!", True, 0)]
    labels = [node.label for node in Level(Names(names), b"")]
    assert labels == [b"a", b"x", b"y", b"y!"]


@given(NAMES, st.sampled_from([b"", b"a/", b"b/", b"b!/", b"/", b"b/b/"]))
@settings(max_examples=300)
def test_a_level_has_each_label_once_in_order(names, prefix):
    assert shown(Level(Names(names), prefix)) == expected(names, prefix)


@given(NAMES, st.data())
@settings(max_examples=200)
def test_pages_of_a_changing_tree_have_each_label_that_stayed_once(names, data):
    store, seen, after = Names(names), [], None
    stayed = {node[:1] for node in expected(names, b"")}
    while page := list(islice(Level(store, b"", after), data.draw(st.integers(1, 3)))):
        seen += [node.label for node in page]
        after = page[-1].label
        changed = data.draw(NAMES)
        gone = data.draw(st.sets(st.sampled_from(store.names))) if store.names else set()
        store.names = sorted(({*store.names} - gone) | changed)
        stayed &= {node[:1] for node in expected(store.names, b"")}
    assert seen == sorted(set(seen))
    assert {label for (label,) in stayed} <= set(seen)


@given(NAMES)
def test_topics_that_are_not_to_be_seen_are_neither_shown_nor_counted(names):
    wanted = {name for name in names if b"b!" not in name}
    level = Level(Names(names), b"", is_wanted=wanted.__contains__)
    assert shown(level) == expected(wanted, b"")


def test_a_large_branch_costs_what_is_counted_of_it():
    names = Names([b"a/%06d" % number for number in range(5 * CHILDREN_MAX)] + [b"b", b"c/d"])
    nodes = list(Level(names, b""))
    assert shown(nodes) == [(b"a", False, CHILDREN_MAX), (b"b", True, 0), (b"c", False, 1)]
    assert [node.is_capped for node in nodes] == [True, False, False]
    assert names.looks < 1.1 * CHILDREN_MAX


def test_an_answer_is_cut_where_enough_was_looked_at():
    names = Names([b"%d/%d" % (first, second) for first in range(10, 99) for second in range(100)])
    level, looks = None, []
    after, seen = None, []
    while level is None or level.is_cut:
        level = Level(names, b"", after, looks=Looks(300))
        for node in level:
            seen.append(node.label)
            if level.is_cut:
                break
        after = level.label
        looks.append(names.looks)
    assert seen == [b"%d" % first for first in range(10, 99)]
    assert len(looks) > 20


def test_a_real_store_gives_the_same():
    store, batch = MemoryStore(), Batch()
    for name in (b"a/b", b"a/b!", b"a/b/c", b"d"):
        batch.append(name, [b"x", b"y"], 1_000, 1)
    store.commit(batch)
    (node, *_) = Level(store, b"a/")
    assert (node.topic.next_offset, node.children) == (2, 1)
    assert list(map(itemgetter(0), Level(store, b""))) == [b"a", b"d"]
