"""What an MQTT 5 client has on its way to the broker: ids, receive maximum, order of answers."""

import pytest

from penstock.core.session import PUBACK, PUBCOMP, PUBCOMP_UNKNOWN, PUBREC
from penstock.doors.mqtt.exchanges import Exchanges
from penstock.wire.mqtt import encode

NONE: set[int] = set()


def refusal(kind, packet_id):
    return encode.ack(kind, packet_id, 0x87)


@pytest.mark.parametrize(("kind", "last"), [(PUBACK, PUBACK), (PUBREC, PUBCOMP)])
def test_a_message_counts_until_it_is_finished(kind, last):
    exchanges = Exchanges(2)
    assert exchanges.begin(kind, [1, 2], NONE)
    assert not exchanges.is_beyond_maximum
    assert exchanges.begin(kind, [3], NONE)
    assert exchanges.is_beyond_maximum
    assert exchanges.answer(kind, [1, 2, 3]) == encode.acks(kind, [1, 2, 3])
    if kind == PUBREC:
        assert exchanges.is_beyond_maximum, "PUBREC alone frees no place"
    exchanges.answer(last, [2])
    assert not exchanges.is_beyond_maximum
    assert 2 not in exchanges


def test_a_refusal_that_is_held_counts_until_it_is_sent():
    exchanges = Exchanges(2)
    exchanges.begin(PUBACK, [1], NONE)
    exchanges.hold(PUBACK, refusal(PUBACK, 2))
    assert not exchanges.is_beyond_maximum
    exchanges.hold(PUBACK, refusal(PUBACK, 3))
    assert exchanges.is_beyond_maximum
    exchanges.answer(PUBACK, [1])
    exchanges.begin(PUBACK, [1, 2], NONE)
    assert not exchanges.is_beyond_maximum


def test_an_id_in_use_begins_no_other_message():
    exchanges = Exchanges(10)
    assert exchanges.begin(PUBREC, [1], NONE)
    assert not exchanges.begin(PUBACK, [2, 1], NONE)
    assert not exchanges.begin(PUBACK, [2, 2], NONE)
    assert not exchanges.begin(PUBACK, [2], {2}), "the session knows it from before"
    assert exchanges.begin(PUBACK, [2], NONE)


def test_a_refusal_waits_for_the_answers_before_it():
    exchanges = Exchanges(10)
    assert not exchanges.hold(PUBACK, refusal(PUBACK, 9)), "nothing is before it"
    exchanges.begin(PUBACK, [1, 2], NONE)
    assert exchanges.hold(PUBACK, refusal(PUBACK, 3))
    assert exchanges.hold(PUBACK, refusal(PUBACK, 4))
    exchanges.begin(PUBACK, [5], NONE)
    assert exchanges.hold(PUBACK, refusal(PUBACK, 6))
    assert exchanges.answer(PUBACK, [1]) == encode.acks(PUBACK, [1])
    assert exchanges.answer(PUBACK, [2, 5]) == b"".join(
        [
            encode.acks(PUBACK, [2]),
            refusal(PUBACK, 3),
            refusal(PUBACK, 4),
            encode.acks(PUBACK, [5]),
            refusal(PUBACK, 6),
        ]
    )
    assert not exchanges.hold(PUBACK, refusal(PUBACK, 7)), "all are answered"


def test_answers_of_another_kind_are_not_waited_for():
    exchanges = Exchanges(10)
    exchanges.begin(PUBREC, [1], NONE)
    assert not exchanges.hold(PUBACK, refusal(PUBACK, 2))
    assert exchanges.hold(PUBREC, refusal(PUBREC, 2))
    assert exchanges.answer(PUBREC, [1]) == encode.acks(PUBREC, [1]) + refusal(PUBREC, 2)


def test_an_id_that_is_used_again_holds_nothing_back():
    exchanges = Exchanges(10)
    exchanges.begin(PUBACK, [1], NONE)
    exchanges.answer(PUBACK, [1])
    exchanges.begin(PUBREC, [1], NONE)
    assert not exchanges.hold(PUBACK, refusal(PUBACK, 2))


def test_messages_that_the_disk_refused_are_free_and_let_others_through():
    exchanges = Exchanges(10)
    exchanges.begin(PUBREC, [1, 2], NONE)
    assert exchanges.hold(PUBREC, refusal(PUBREC, 3))
    refusals = {1: refusal(PUBREC, 1), 2: refusal(PUBREC, 2)}
    told = exchanges.refuse(PUBREC, refusals)
    assert told == b"".join([refusal(PUBREC, number) for number in (1, 2, 3)])
    assert 1 not in exchanges
    assert exchanges.begin(PUBACK, [1, 2], NONE)


def test_a_message_that_did_not_begin_after_all_leaves_no_trace():
    exchanges = Exchanges(10)
    exchanges.begin(PUBACK, [1], NONE)
    last = exchanges.last(PUBACK)
    exchanges.begin(PUBACK, [2], NONE)
    exchanges.undo(PUBACK, 2, last)
    assert 2 not in exchanges
    assert exchanges.hold(PUBACK, refusal(PUBACK, 2))
    assert exchanges.answer(PUBACK, [1]) == encode.acks(PUBACK, [1]) + refusal(PUBACK, 2)


def test_the_release_of_an_unknown_id_is_answered_with_a_code():
    told = Exchanges(10).answer(PUBCOMP_UNKNOWN, [7, 8])
    assert told == b"".join([encode.ack(PUBCOMP, number, 0x92) for number in (7, 8)])
