"""The checker of the campaign detects each violation, and reports nothing else."""

from math import inf

import pytest

from tests.chaos import checker
from tests.chaos.history import Delivery, Grant, Op
from tests.chaos.linear import log_fault


def op(kind, number, invoked=0.0, returned=inf, value=-1, *, who="p"):
    return Op(kind, "t", who, number, b"%s/%d" % (who.encode(), number), invoked, returned, value)


def stored(*payloads):
    return {"t": list(enumerate(payloads))}


# ── Journals ──────────────────────────────────────────────────────────────────────────────────


def test_equal_journals_pass():
    assert not checker.check_journals({1: stored(b"p/1", b"p/2"), 2: stored(b"p/1", b"p/2")})


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (stored(b"p/1"), "node 1 has 2 messages, node 2 1"),
        (stored(b"p/1", b"p/3"), "node 1 has"),
        ({}, "node 1 has 2 messages, node 2 0"),
    ],
)
def test_journals_that_differ_are_found(other, complaint):
    [found] = checker.check_journals({1: stored(b"p/1", b"p/2"), 2: other})
    assert complaint in found


def test_a_hole_in_a_journal_is_found():
    journal = {"t": [(0, b"p/1"), (2, b"p/2")]}
    [found] = checker.check_journals({1: journal, 2: journal})
    assert "not 0, 1, 2" in found


# ── Publishes ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["numbered", "qos1", "qos2", "once", "again"])
def test_what_was_acknowledged_and_is_not_there_is_found(kind):
    ops = [op(kind, 1, 0, 1), op(kind, 2, 1, 2)]
    assert not checker.check_publishes(ops, stored(b"p/1", b"p/2"))
    [found] = checker.check_publishes(ops, stored(b"p/1"))
    assert "was acknowledged and is lost" in found


@pytest.mark.parametrize("kind", ["numbered", "qos2", "once"])
def test_a_double_of_what_is_stored_once_is_found_also_without_an_answer(kind):
    [found] = checker.check_publishes([op(kind, 1)], stored(b"p/1", b"p/1"))
    assert "is there 2 times" in found


@pytest.mark.parametrize("kind", ["qos1", "again"])
def test_a_double_of_what_is_repeated_passes(kind):
    assert not checker.check_publishes([op(kind, 1, 0, 1)], stored(b"p/1", b"p/1"))


def test_what_was_not_answered_may_be_there_or_not():
    assert not checker.check_publishes([op("once", 1)], stored())
    assert not checker.check_publishes([op("once", 1)], stored(b"p/1"))


def test_a_wrong_offset_is_found():
    [found] = checker.check_publishes([op("numbered", 1, 0, 1, 7)], stored(b"p/1"))
    assert "told to be at 7 and is at [0]" in found


def test_what_nobody_published_is_found():
    [found] = checker.check_publishes([], stored(b"p/1"))
    assert "was never published" in found


# ── Order ─────────────────────────────────────────────────────────────────────────────────────


def test_order_is_that_of_the_first_copies():
    ops = [op("qos1", 1), op("qos1", 2)]
    assert not checker.check_order(ops, stored(b"p/1", b"p/2", b"p/1"))
    [found] = checker.check_order(ops, stored(b"p/2", b"p/1", b"p/2"))
    assert "p published 1 before 2" in found


def test_the_order_of_different_clients_does_not_matter():
    assert not checker.check_order([op("qos1", 1), op("qos1", 2, who="o")], stored(b"o/2", b"p/1"))


# ── Grants ────────────────────────────────────────────────────────────────────────────────────


def grant(worker, asked, got, lease_s=2.0, **ends):
    return Grant("t", "g", worker, 5, asked, got, lease_s, **ends)


def test_a_message_may_be_given_again_when_its_lease_is_over():
    assert not checker.check_grants([grant("a", 0.0, 0.1), grant("b", 2.0, 2.1)])


def test_a_message_in_two_hands_is_found():
    [found] = checker.check_grants([grant("b", 0.9, 1.0), grant("a", 0.0, 0.1)])
    assert "b got it 0.900 s after a, whose lease of 2 s was not over" in found


def test_a_message_that_is_given_back_may_be_given_at_once():
    assert not checker.check_grants([grant("a", 0.0, 0.1, returned=0.2), grant("b", 0.2, 0.3)])


def test_a_message_given_before_it_was_given_back_is_found():
    assert checker.check_grants([grant("a", 0.0, 0.1, returned=1.2), grant("b", 0.2, 0.3)])


def test_a_message_that_comes_after_it_was_done_is_found_however_late():
    [found] = checker.check_grants([grant("a", 0.0, 0.1, acked=0.5), grant("b", 9.0, 9.1)])
    assert "whose acknowledgement was confirmed before" in found


def test_an_acknowledgement_when_the_lease_may_have_been_over_proves_nothing():
    assert not checker.check_grants([grant("a", 0.0, 0.1, acked=2.5), grant("b", 9.0, 9.1)])


def test_an_entry_of_a_stream_that_is_given_twice_is_found():
    assert checker.check_grants([grant("a", 0, 0.1, inf), grant("b", 99, 99.1, inf)])


def test_groups_do_not_concern_each_other():
    other = Grant("t", "h", "b", 5, 0.2, 0.3, 2.0)
    assert not checker.check_grants([grant("a", 0.0, 0.1), other])


# ── Deliveries ────────────────────────────────────────────────────────────────────────────────


def came(*payloads):
    return [Delivery("s", "t", payload, 1.0) for payload in payloads]


def test_messages_that_come_in_the_order_of_their_publishers_pass():
    ops = [op("qos1", n, who=who) for who in "pq" for n in (1, 2, 3)]
    payloads = b"p/1 q/1 q/2 p/2 p/1 p/2 p/3 q/3".split()  # repeated: the first copy counts
    assert not checker.check_delivery_order("sub", ops, came(*payloads))


def test_a_message_that_comes_behind_a_later_one_is_found():
    ops = [op("qos2", n) for n in (1, 2, 3)]
    [found] = checker.check_delivery_order("sub", ops, came(b"p/1", b"p/3", b"p/2"))
    assert "published 2 before 3, it came to sub behind it" in found


def test_what_did_not_come_is_found():
    journal = stored(b"p/1", b"p/2")
    ops = [op("qos1", 1), op("qos1", 2)]
    assert not checker.check_deliveries("s", ops, came(b"p/1", b"p/2", b"p/1"), journal)
    [found] = checker.check_deliveries("s", ops, came(b"p/1"), journal)
    assert "p/2 (qos1) never came to s" in found


def test_what_came_twice_and_must_not_is_found():
    [found] = checker.check_deliveries("s", [op("qos2", 1)], came(b"p/1", b"p/1"), stored(b"p/1"))
    assert "came to s 2 times" in found


def test_what_came_and_is_not_stored_is_found():
    [found] = checker.check_deliveries("s", [op("qos1", 1)], came(b"p/1"), stored())
    assert "is not stored" in found


def delivery(at, settled=inf, sequence=7):
    return Delivery("s", "t", b"p/1", at, sequence=sequence, settled=settled)


def test_what_comes_again_after_it_was_settled_is_found():
    assert not checker.check_settled([delivery(1.0), delivery(2.0, 2.5)])
    assert not checker.check_settled([delivery(3.0, sequence=8), delivery(1.0, 2.0)])
    [found] = checker.check_settled([delivery(3.0), delivery(1.0, 2.0)])
    assert "came to s again after it was done" in found


# ── Linearizability ───────────────────────────────────────────────────────────────────────────


def put(value, invoked, returned):
    return op("numbered", value, invoked, returned, value)


def end(value, invoked, returned):
    return op("end", 0, invoked, returned, value, who="r")


LINEARIZABLE = [
    [],
    [put(0, 0, 1), put(1, 2, 3), end(2, 4, 5)],
    [put(1, 0, 5), put(0, 1, 2)],  # at the same time, in any order
    [put(0, 0, 9), end(0, 1, 2), end(1, 3, 4)],  # took effect between the reads
    [put(0, 0, 9), end(1, 1, 2)],  # took effect before it was answered
    [put(0, 0, inf), put(1, 5, 6)],  # never answered, and there
    [end(1, 0, 9), put(0, 1, 2), end(1, 3, 4), end(0, 0, 9)],
]

NOT_LINEARIZABLE = [
    [put(1, 0, 1), put(0, 2, 3)],  # the later one has the lower offset
    [put(0, 0, 1), end(0, 2, 3)],  # a read that is behind
    [put(0, 0, 9), end(1, 1, 2), end(0, 3, 4)],  # a read that moves back
    [end(1, 0, 1), put(0, 2, 3)],  # a read of the future
    [put(0, 0, 1), put(0, 2, 3)],  # one offset for two
    [put(0, 0, 1), put(2, 2, 3)],  # an offset without a message
]


@pytest.mark.parametrize("ops", LINEARIZABLE)
def test_a_history_of_one_log_passes(ops):
    assert log_fault(ops) == ""


@pytest.mark.parametrize("ops", NOT_LINEARIZABLE)
def test_a_history_that_is_not_of_one_log_is_found(ops):
    assert "are in no order" in log_fault(ops)


def test_the_search_takes_steps_back():
    """The first choice (the read) fits at first, but fails; the second explains everything."""
    ops = [end(0, 0, 9), end(1, 0, 9), put(0, 0, 9), put(1, 0, 9), end(2, 0, 9)]
    assert log_fault(ops) == ""


def test_a_long_history_is_checked_soon():
    ops = [put(n, n, n + 1.5) for n in range(2_000)]
    assert log_fault(ops) == ""


def test_produces_without_an_answer_count_if_they_are_there():
    ops = [op("numbered", 1, 0), op("numbered", 2, 1, 2, 1), op("end", 0, 3, 4, 2)]
    assert not checker.check_linearizable(ops, stored(b"p/1", b"p/2"))
    [found] = checker.check_linearizable(ops, stored(b"p/2"))
    assert "are in no order" in found
