"""A session's deliveries: states, packet ids, order, and the row that describes it all."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.commands import WillMessage
from penstock.core.session import (
    AWAIT_PUBACK,
    AWAIT_PUBCOMP,
    AWAIT_PUBREC,
    PUBACK,
    PUBCOMP,
    PUBREC,
    Session,
)

STATES = [None, AWAIT_PUBACK, AWAIT_PUBREC, AWAIT_PUBCOMP]
KINDS = [PUBACK, PUBREC, PUBCOMP]
MOVES = {
    (AWAIT_PUBACK, PUBACK): None,
    (AWAIT_PUBREC, PUBREC): AWAIT_PUBCOMP,
    (AWAIT_PUBCOMP, PUBCOMP): None,
}
"""The only moves there are; None is a delivery that is complete, or never was."""

FAULTS = {
    (AWAIT_PUBACK, PUBREC),
    (AWAIT_PUBACK, PUBCOMP),
    (AWAIT_PUBREC, PUBACK),
    (AWAIT_PUBREC, PUBCOMP),
    (AWAIT_PUBCOMP, PUBACK),
}
"""Answers of the wrong QoS, or before their time; others that do not fit are late or repeated."""


def connected() -> Session:
    session = Session(b"c", durable=True)
    session.connected = True
    return session


def in_state(state: int | None) -> Session:
    """A session whose packet 1 is in this state."""
    session = connected()
    if state is not None:
        session.begin(7, 1 if state == AWAIT_PUBACK else 2)
    if state == AWAIT_PUBCOMP:
        assert not session.acknowledge(PUBREC, [1])
    return session


def states(session: Session) -> dict[int, int]:
    return {packet_id: state for packet_id, _, state, _ in session.unfinished()}


@pytest.mark.parametrize(("state", "kind"), list(product(STATES, KINDS)))
def test_a_delivery_moves_as_the_table_says_and_not_otherwise(state, kind):
    session = in_state(state)
    fits = (state, kind) in MOVES
    after = MOVES.get((state, kind), state)
    assert session.acknowledge(kind, [1]) == ([] if fits else [1])
    assert states(session) == ({} if after is None else {1: after})


@pytest.mark.parametrize(("state", "kind"), list(product(STATES, KINDS)))
def test_only_an_answer_of_the_wrong_qos_or_before_its_time_is_a_fault(state, kind):
    session = in_state(state)
    assert session.fault_of(kind, [99, 1]) == (1 if (state, kind) in FAULTS else 0)


def test_a_delivery_keeps_its_sequence_and_retain_flag_through_the_handshake():
    session = connected()
    session.begin(41, 2, retain=True)
    assert list(session.unfinished()) == [(1, 41, AWAIT_PUBREC, True)]
    session.acknowledge(PUBREC, [1])
    assert list(session.unfinished()) == [(1, 41, AWAIT_PUBCOMP, True)]


# ── packet ids ────────────────────────────────────────────────────────────────────────────────


def test_packet_ids_begin_at_one_and_wrap_after_32767():
    session = connected()
    session.next_packet_id = 32_766
    assert [session.begin(1, 1) for _ in range(4)] == [32_766, 32_767, 1, 2]


def test_a_packet_id_in_use_is_passed_over():
    session = connected()
    session.next_packet_id = 32_767
    assert [session.begin(1, 1) for _ in range(2)] == [32_767, 1]
    session.next_packet_id = 32_767
    assert session.begin(2, 1) == 2


def test_all_32767_packet_ids_can_be_in_flight_and_a_freed_one_is_found_again():
    session = connected()
    assert session.begin_run(1, 1, 32_767) == list(range(1, 32_768))
    assert not session.has_room()
    session.acknowledge(PUBACK, [30_000])
    assert session.has_room()
    assert session.begin(70_000, 1) == 30_000


@given(
    first=st.sampled_from([1, 5, 32_762, 32_767]),
    taken=st.sets(st.sampled_from([1, 2, 3, 7, 8, 32_763, 32_767])),
    count=st.integers(1, 12),
    qos=st.integers(1, 2),
)
def test_a_run_gets_the_same_ids_as_its_messages_one_by_one(first, taken, count, qos):
    """Replay goes one by one where the broker went by the run; the outcome must not differ."""
    one_by_one, run = connected(), connected()
    for session in (one_by_one, run):
        for packet_id in taken:
            session.next_packet_id = packet_id
            session.begin(1, 1)
        session.next_packet_id = first
    expected = [one_by_one.begin(100 + number, qos) for number in range(count)]
    assert run.begin_run(100, qos, count) == expected
    assert run.inflight == one_by_one.inflight
    assert run.next_packet_id == one_by_one.next_packet_id


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_an_id_is_never_given_out_while_it_is_in_use(steps):
    session = connected()
    session.next_packet_id = 32_765
    in_use: list[int] = []
    for is_new, which in steps:
        if is_new or not in_use:
            packet_id = session.begin(1, 1)
            assert packet_id not in in_use
            assert 1 <= packet_id <= 32_767
            in_use.append(packet_id)
        else:
            packet_id = in_use.pop(which % len(in_use))
            assert not session.acknowledge(PUBACK, [packet_id])
    assert list(states(session)) == in_use


def naive_choice(session: Session, ids: int) -> int:
    """The first free id from the next one on, around the circle."""
    circle = [*range(session.next_packet_id, ids + 1), *range(1, session.next_packet_id)]
    return next(packet_id for packet_id in circle if packet_id not in (session.inflight or {}))


@given(
    first=st.integers(1, 24),
    filled=st.integers(0, 24),
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "run", "acknowledge", "lose"]), st.integers(0, 23)),
        max_size=60,
    ),
)
def test_the_id_chosen_is_the_first_free_one_however_it_is_found(first, filled, steps):
    """Few ids and short walks, so that the table comes and goes and the circle closes often."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.core.session.PACKET_ID_MAX", 24)
        patch.setattr("penstock.core.session._LOOKS_MAX", 4)
        session = connected()
        session.next_packet_id = first
        for step, number in [("begin", 0)] * filled + steps:
            in_use = list(session.inflight or {})
            if step == "begin" and len(in_use) < 24:
                expected = naive_choice(session, 24)
                assert session.begin(1, 1) == expected
            elif step == "run" and len(in_use) + number % 6 < 24:
                expected = naive_choice(session, 24)
                assert session.begin_run(1, 1, number % 6 + 1)[0] == expected
            elif step == "acknowledge" and in_use:
                assert not session.acknowledge(PUBACK, [in_use[number % len(in_use)]])
            elif step == "lose" and in_use:
                del session.inflight[in_use[number % len(in_use)]]
        assert len(set(session.inflight or {})) == session.inflight_count <= 24


class CountedIds(dict):
    """Deliveries in flight that count lookups of ids."""

    looks = 0

    def __contains__(self, packet_id):
        self.looks += 1
        return super().__contains__(packet_id)


def test_a_client_that_frees_the_id_last_taken_costs_no_walk_around_the_circle():
    session = connected()
    session.begin_run(1, 1, 32_767)
    session.inflight = CountedIds(session.inflight)
    for _ in range(100):
        assert not session.acknowledge(PUBACK, [30_000])
        assert session.begin(70_000, 1) == 30_000
    assert session.inflight.looks < 2_000


def test_the_table_of_taken_ids_goes_when_few_are_in_flight():
    """A session costs nothing but what it uses."""
    session = connected()
    session.begin_run(1, 1, 32_767)
    session.acknowledge(PUBACK, [30_000])
    session.begin(70_000, 1)
    assert session._taken_ids is not None
    for packet_id in range(1, 32_767):
        session.acknowledge(PUBACK, [packet_id])
    assert session._taken_ids is None


def test_the_window_is_no_wider_than_there_are_ids():
    session = connected()
    session.limit_window(65_535, 0)
    assert session.window == 32_767
    session.begin_run(1, 1, 32_767)
    assert not session.has_room()
    session.enqueue(40_000, 1)
    assert list(session.dequeue()) == []


def test_ids_that_an_earlier_version_left_in_flight_are_finished_and_not_given_out_again():
    """It gave out all 65,535."""
    before = connected()
    before.inflight = {60_000: 7 << 3 | 1}
    before.next_packet_id = 60_001
    session = Session.from_row(before.to_row(1))
    session.connected = True
    assert session.begin(8, 1) == 60_001 - 32_767
    assert not session.acknowledge(PUBACK, [60_000])
    assert session.inflight_count == 1


# ── room, queue, order ────────────────────────────────────────────────────────────────────────


def test_there_is_room_only_if_connected_with_nothing_waiting_and_a_window():
    session = connected()
    session.limit_window(2, 0)
    assert session.has_room(2)
    assert not session.has_room(3)
    session.begin(1, 1)
    assert session.has_room()
    session.limit_window(2, 1)  # the receive maximum of another connection
    assert not session.has_room()
    session.limit_window(2, 7)
    session.enqueue(2, 1)
    assert not session.has_room()
    assert not Session(b"away", durable=True).has_room()


def test_the_queue_leaves_in_order_as_far_as_the_window_allows():
    session = connected()
    session.limit_window(2)
    for sequence in (5, 6, 7):
        session.enqueue(sequence, 2 if sequence == 6 else 1, retain=sequence == 6)
    assert session.queue_count == 3
    assert list(session.dequeue()) == [(1, 5, 1, False), (2, 6, 2, True)]
    assert list(session.dequeue()) == []
    session.acknowledge(PUBACK, [1])
    assert list(session.dequeue()) == [(3, 7, 1, False)]
    assert (session.queue_count, session.inflight_count) == (0, 2)


def test_unfinished_deliveries_are_repeated_oldest_first_whatever_their_ids():
    session = connected()
    session.next_packet_id = 32_767
    for sequence in (10, 11, 12):
        session.begin(sequence, 2)
    session.acknowledge(PUBREC, [32_767])
    assert [(i, s) for i, s, _, _ in session.unfinished()] == [(32_767, 10), (1, 11), (2, 12)]


def test_an_empty_session_has_nothing():
    session = Session(b"c", durable=False)
    assert (session.inflight_count, session.queue_count) == (0, 0)
    assert list(session.unfinished()) == list(session.dequeue()) == []
    assert session.oldest_needed() is None
    assert session.acknowledge(PUBACK, [1]) == [1]
    assert session.fault_of(PUBACK, [1]) == 0
    assert not session.has_received(1)
    session.release([1])
    assert not session.recorded


def test_the_oldest_needed_is_the_lowest_of_those_in_flight_and_waiting():
    session = connected()
    session.enqueue(8, 1)
    assert session.oldest_needed() == 8
    session.begin(6, 1)
    session.begin(7, 1)
    assert session.oldest_needed() == 6


def test_a_retained_message_is_needed_until_it_is_acknowledged_and_no_longer():
    """It is older than what it stands behind; a session that is always busy must not hold it."""
    session = connected()
    session.begin(8, 1)
    session.note_offer(3)
    session.note_offer(5)
    session.enqueue(3, 1, retain=True)
    assert session.oldest_needed() == 3
    session.acknowledge(PUBACK, [1])
    assert list(session.dequeue()) == [(2, 3, 1, True)]
    session.begin(9, 1)
    assert session.oldest_needed() == 3
    session.acknowledge(PUBACK, [2])
    assert session.oldest_needed() == 9


# ── offers to come ────────────────────────────────────────────────────────────────────────────


def test_overtaken_topics_are_noted_until_a_page_was_turned():
    session = connected()
    session.overtake(b"t")
    assert session.overtaken is None
    session.begin_offer({b"#": 1}, 9)
    session.overtake(b"t")
    assert session.overtaken == {b"t"}
    session.turn_page(session.offers[0], 5, is_last=False)
    assert session.overtaken == set()
    session.turn_page(session.offers[0], 9, is_last=True)
    assert session.overtaken is session.offers is None


def test_a_page_is_void_once_more_topics_were_overtaken_than_are_noted(monkeypatch):
    monkeypatch.setattr("penstock.core.session.OVERTAKEN_MAX", 2)
    session = connected()
    session.begin_offer({b"#": 1}, 9)
    number = session.offers[0].number
    for topic in (b"a", b"b"):
        session.overtake(topic)
    assert session.offers[0].number == number
    session.overtake(b"c")
    assert session.offers[0].number != number
    assert session.overtaken == set()


def test_a_filter_that_is_subscribed_again_starts_over_and_is_offered_once():
    session = connected()
    session.begin_offer({b"a/#": 1, b"b/#": 1}, 9)
    session.turn_page(session.offers[0], 5, is_last=False)
    session.begin_offer({b"a/#": 2}, 12)
    assert [(offer.filters, offer.after) for offer in session.offers] == [
        ({b"b/#": 1}, 5),
        ({b"a/#": 2}, -1),
    ]
    session.withdraw_offers([b"b/#"])
    assert [offer.filters for offer in session.offers] == [{b"a/#": 2}]


def test_a_will_has_a_live_session_recorded():
    session = Session(b"c", durable=False)
    session.will = WillMessage(b"t", b"", 0, retain=False)
    assert session.recorded


# ── QoS 2, receiving ──────────────────────────────────────────────────────────────────────────


def test_received_ids_are_known_until_they_are_released():
    session = connected()
    session.receive([1, 2])
    session.receive([3])
    session.release([2, 9])
    assert [session.has_received(packet_id) for packet_id in (1, 2, 3)] == [True, False, True]


# ── the row ───────────────────────────────────────────────────────────────────────────────────

packet_ids = st.integers(1, 65_535)
packed = st.builds(
    lambda sequence, state, retain: sequence << 3 | retain << 2 | state,
    st.integers(1, 2**60),
    st.integers(1, 3),
    st.booleans(),
)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    session = Session(draw(st.binary(max_size=8)), durable=draw(st.booleans()))
    session.connected = draw(st.booleans())
    session.connection = draw(st.integers(0, 2**63))
    session.away_since_ms = draw(st.integers(0, 2**45))
    session.will = draw(
        st.none()
        | st.builds(WillMessage, st.binary(), st.binary(), st.integers(0, 2), st.booleans())
    )
    session.next_packet_id = draw(st.integers(1, 32_767))
    session.subscriptions = draw(st.dictionaries(st.binary(), st.integers(0, 2))) or None
    session.inflight = draw(st.dictionaries(packet_ids, packed)) or None
    for entry in draw(st.lists(packed)):
        session.enqueue(entry >> 3, entry & 3, retain=bool(entry & 4))
    session.receive(draw(st.lists(packet_ids)))
    for topic in draw(st.lists(st.binary(), max_size=3)):
        session.begin_offer({topic: 1}, draw(st.integers(0, 2**60)))
        session.overtake(topic)
    session.offer_floor = draw(st.integers(0, 2**60))
    session.everywhere = draw(st.booleans())
    session.origin = draw(st.integers(0, 2**63))
    return session


@given(sessions(), st.integers(0, 2**60))
def test_the_row_of_a_live_session_has_nothing_that_only_its_own_node_knows(session, applied):
    session.durable = False
    bare = Session(session.client_id, durable=False)
    for name in ("connected", "connection", "will", "everywhere", "origin"):
        setattr(bare, name, getattr(session, name))
    assert session.to_row(applied) == bare.to_row(applied)
    again = Session.from_row(session.to_row(applied))
    assert (again.connection, again.will) == (session.connection, session.will)
    assert (again.everywhere, again.origin) == (session.everywhere, session.origin)


@given(sessions(), st.integers(0, 2**60))
def test_a_row_brings_the_session_back(session, applied):
    session.durable = True
    again = Session.from_row(session.to_row(applied))
    assert again.applied == session.applied == applied
    names = "client_id durable connected connection away_since_ms will everywhere origin"
    for name in names.split():
        assert getattr(again, name) == getattr(session, name)
    assert again.next_packet_id == session.next_packet_id
    assert again.subscriptions == session.subscriptions
    assert list(again.unfinished()) == list(session.unfinished())  # order is part of the state
    assert list(again.queue or ()) == list(session.queue or ())
    assert (again.received or set()) == (session.received or set())
    assert (again.offers, again.offers_made) == (session.offers, session.offers_made)
    assert (again.overtaken or set()) == (session.overtaken or set())
    has_offers = any(retain for *_, retain in session.unfinished())
    has_offers = has_offers or any(entry & 4 for entry in session.queue or ())
    assert again.offer_floor == (session.offer_floor if has_offers else 0)
    assert again.client is None
    assert again.to_row(applied) == session.to_row(applied)
