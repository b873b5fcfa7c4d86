"""The outgoing half of a connection: one write per turn, bounds, and order whatever is put off."""

import pytest
from tests.outbox_bench import BOUND, Bench

from penstock.core.delivery import DELIVER_DUP, DELIVER_PUBREL, DELIVER_RETAIN
from penstock.core.retained import RetainedMessage
from penstock.core.session import PUBACK, PUBREL
from penstock.doors.mqtt import outbox as module
from penstock.errors import StorageError
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.wire.mqtt import encode


def frame(sequence: int, packet_id: int, *, qos: int = 1, dup: bool = False, retain=False) -> bytes:
    payload = b"%d" % sequence
    head = encode.publish_head(b"t", len(payload), qos, retain, dup)
    return head + packet_id.to_bytes(2, "big") + payload


def live(payload: bytes) -> bytes:
    return encode.publish(b"t", payload)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_whatever_gathers_in_one_turn_leaves_as_one_write(bench):
    bench.outbox.send_live(1, live(b"zero"))
    bench.outbox.send(b"answer")
    bench.outbox.deliver(
        [(b"t", b"7", 1, 3, 7, None), (b"t", b"8", 2, 4, 8, None), (b"t", b"9", 0, 0, 0, None)]
    )
    assert bench.writes == []
    bench.loop.run()
    assert bench.writes == [
        b"answer" + frame(7, 3) + frame(8, 4, qos=2) + live(b"zero") + live(b"9")
    ]
    assert bench.counters.messages_out_total == [2, 1, 1]
    assert bench.counters.bytes_out_total == len(bench.written)


def test_nothing_gathered_is_nothing_written(bench):
    bench.outbox.flush()
    assert bench.writes == []


def test_while_the_reader_is_slow_nothing_is_written_and_then_all(bench):
    bench.outbox.pause()
    bench.outbox.send(b"a")
    bench.outbox.send_live(1, live(b"x"))
    bench.loop.run()
    assert bench.writes == []
    bench.outbox.resume()
    assert bench.writes == [b"a" + live(b"x")]


def test_a_slow_reader_loses_the_oldest_live_messages_counted_one_by_one(bench):
    bench.outbox.pause()
    two = live(b"a" * 48) + live(b"b" * 148)  # one slice, a short and a long frame
    for _ in range(6):
        bench.outbox.send_live(2, two)
        bench.loop.run()
    kept = len(bench.outbox._live)
    assert len(two) * kept <= BOUND
    assert bench.counters.drops[DropReason.SLOW_READER] == 2 * (6 - kept) > 0
    assert bench.counters.messages_out_total[0] == 0, "nothing was sent yet"
    bench.outbox.resume()
    assert bench.counters.messages_out_total[0] == 2 * kept
    bench.outbox.resume()
    assert bench.written == two * kept


def test_answers_are_never_dropped_but_a_client_that_never_reads_them_is_given_up(bench):
    bench.outbox.pause()
    answer = encode.acks(PUBACK, list(range(1, 101)))
    bench.outbox.send(answer)
    bench.loop.run()
    assert not bench.given_up
    for _ in range(3):
        bench.outbox.send(answer)
    bench.loop.run()
    ((reason, detail),) = bench.given_up
    assert reason is DisconnectReason.SLOW_READER
    assert detail.startswith("1600 bytes")


def test_what_waited_is_read_from_the_journal_in_order(bench):
    bench.outbox.deliver(
        [
            (b"", None, 1 | DELIVER_DUP, 1, 10, None),
            (b"", None, DELIVER_PUBREL, 2, 11, None),
            (b"", None, 2, 3, 12, None),
        ]
    )
    ((sequences, *_),) = bench.reads
    assert sequences == [10, 12]
    bench.answer_reads()
    pubrel = encode.acks(PUBREL, [2])
    assert bench.written == frame(10, 1, dup=True) + pubrel + frame(12, 3, qos=2)


def test_pubrels_alone_need_no_reading(bench):
    bench.outbox.deliver(
        [(b"", None, DELIVER_PUBREL, 5, 1, None), (b"", None, DELIVER_PUBREL, 6, 2, None)]
    )
    bench.loop.run()
    assert bench.written == encode.acks(PUBREL, [5]) + encode.acks(PUBREL, [6])
    assert not bench.reads


def test_a_new_message_does_not_overtake_those_that_are_being_read(bench):
    """[MQTT-4.6.0-6]: its payload is in memory, theirs are not."""
    bench.outbox.deliver([(b"", None, 1, 1, 10, None)])
    bench.outbox.deliver([(b"t", b"11", 1, 2, 11, None)])
    bench.loop.run()
    assert bench.written == b""
    bench.answer_reads()
    bench.outbox.deliver([(b"t", b"12", 1, 3, 12, None)])
    bench.loop.run()
    assert bench.written == frame(10, 1) + frame(11, 2) + frame(12, 3)


def test_live_messages_do_not_wait_for_those_that_are_being_read(bench):
    bench.outbox.deliver([(b"", None, 1, 1, 10, None), (b"t", b"0", 0, 0, 0, None)])
    bench.loop.run()
    assert bench.written == live(b"0")


def test_messages_for_a_slow_reader_are_put_off_without_their_payloads(bench):
    bench.outbox._room = 10
    bench.outbox.pause()
    bench.outbox.deliver(
        [(b"t", b"%d" % number, 1, number, number, None) for number in range(100, 300)]
    )
    bench.loop.run()
    assert bench.outbox._out_bytes < 30
    assert len(bench.outbox._deferred) > 190
    assert not bench.given_up
    bench.outbox.resume()
    bench.loop.run()
    bench.answer_reads()
    assert bench.written == b"".join(frame(number, number) for number in range(100, 300))
    assert not bench.outbox._deferred
    assert bench.counters.messages_out_total[1] == 200


def test_a_long_queue_is_read_in_lots(bench):
    count = module.FETCH_MESSAGES_MAX + 1
    bench.outbox.deliver([(b"", None, 1, number, number, None) for number in range(1, count + 1)])
    assert [len(sequences) for sequences, *_ in bench.reads] == [count - 1]
    bench.answer_reads()
    assert bench.written == b"".join(frame(number, number) for number in range(1, count + 1))


def test_what_the_journal_has_no_more_is_lost_and_said_so(bench):
    bench.gone = {10}
    bench.outbox.deliver([(b"", None, 1, 1, 10, None), (b"", None, 1, 2, 11, None)])
    bench.answer_reads()
    assert bench.lost == [1]
    assert bench.written == frame(11, 2)


def test_a_retained_message_outlives_its_place_in_the_journal(bench):
    bench.gone = {10, 11}
    bench.retained.set(RetainedMessage(b"t", b"10", 1, 0, 10, None))
    deliveries = [(b"", None, 1 | DELIVER_RETAIN, n, 9 + n, None) for n in (1, 2)]
    bench.outbox.deliver(deliveries)
    bench.answer_reads()
    assert bench.written == frame(10, 1, retain=True)
    assert bench.lost == [2]


def test_a_journal_that_cannot_be_read_ends_the_connection_and_skips_nothing(bench):
    bench.outbox.deliver([(b"", None, 1, 1, 10, None)])
    _, _, fail, _ = bench.reads[0]
    fail(StorageError("damaged"))
    assert bench.given_up == [(DisconnectReason.STORAGE_FAILED, "damaged")]
    assert not bench.lost


def test_closing_writes_the_last_of_what_must_arrive(bench):
    bench.outbox.pause()
    bench.outbox.send(b"last")
    bench.outbox.close()
    assert bench.written == b"last"
    bench.outbox.send(b"later")
    bench.outbox.close()
    bench.loop.run()
    assert bench.written == b"last"


def test_what_is_read_after_the_close_goes_nowhere(bench):
    bench.outbox.deliver([(b"", None, 1, 1, 10, None)])
    bench.outbox.close()
    bench.answer_reads()
    bench.outbox.resume()
    assert bench.written == b""
    assert not bench.lost


def test_a_closed_outbox_gathers_nothing(bench):
    """The session keeps its outlet until ``Closed`` is committed, which a full disk may put off."""
    bench.outbox.close()
    for _ in range(100):
        bench.outbox.send_live(1, live(b"x" * 100))
        bench.loop.run()
    assert sum(map(len, bench.outbox._live)) <= BOUND
    assert bench.counters.messages_out_total[0] == 0


def test_messages_that_are_lost_together_are_told_together(bench):
    told = []
    bench.lose = lambda *lost: told.append(lost)
    bench.gone = {10, 12}
    bench.outbox.deliver([(b"", None, 1, number, 9 + number, None) for number in (1, 2, 3)])
    bench.answer_reads()
    assert told == [([1, 3], DropReason.RETENTION)]


def test_messages_that_may_not_be_received_any_more_are_lost_as_denied(bench):
    told = []
    bench.lose = lambda *lost: told.append(lost)
    bench.denied = {b"t"}
    bench.outbox.deliver([(b"", None, 1, 1, 10, None)])
    bench.answer_reads()
    assert told == [([1], DropReason.NOT_AUTHORIZED)]
    assert bench.written == b""


def test_what_was_read_for_a_reader_that_fell_behind_is_put_back_in_its_place(bench):
    """It must not fill the memory meanwhile, nor be overtaken when it is read again."""
    bench.outbox.deliver([(b"", None, 1, 1, 10, None), (b"", None, DELIVER_PUBREL, 2, 11, None)])
    bench.outbox.deliver([(b"t", b"12", 1, 3, 12, None)])
    bench.outbox.pause()
    bench.answer_reads()
    assert bench.outbox._out_bytes == 0
    assert not bench.lost
    bench.outbox.resume()
    assert [sequences for sequences, *_ in bench.reads] == [[10, 12]]
    bench.answer_reads()
    assert bench.written == frame(10, 1) + encode.acks(PUBREL, [2]) + frame(12, 3)
    assert not bench.outbox._deferred


def test_the_transport_pauses_us_no_later_than_we_put_messages_off(bench):
    """Else what was put off would be read from the journal over and over while it is full."""
    assert bench.marks == [bench.outbox._room]
    assert bench.outbox._room <= BOUND // 2


# ── the budget of all connections ─────────────────────────────────────────────────────────────


def test_a_message_that_is_more_than_the_budget_has_left_is_put_off(bench):
    other = Other()
    bench.door.connections.budget.note(other, (1 << 20) - 20)
    bench.outbox.deliver([(b"t", b"7", 1, 7, 7, None), (b"t", b"x" * 100, 1, 8, 8, None)])
    bench.loop.run()
    assert bench.written == frame(7, 7)
    assert len(bench.outbox._deferred) == 1
    assert not bench.reads, "there is no room for what would be read"
    bench.door.connections.budget.note(other, 0)
    bench.loop.run()
    bench.answer_reads()
    assert bench.written == frame(7, 7) + frame(8, 8)


def test_a_reader_that_holds_its_share_is_sent_more_when_it_has_read_that(bench):
    bench.door.connections.budget.note(Other(), 1 << 19)
    bench.buffered = 1 << 19
    bench.outbox.refresh()
    assert bench.door.connections.budget.is_tight
    bench.outbox.deliver([(b"t", b"7", 1, 7, 7, None)])
    assert bench.marks[-1] == 0, "the transport says when it is empty"
    bench.outbox.pause()
    bench.loop.run()
    assert bench.written == b""
    bench.buffered = 0
    bench.outbox.resume()
    bench.answer_reads()
    assert bench.written == frame(7, 7)
    assert bench.marks[-1] == bench.marks[0]


def test_live_messages_are_dropped_down_to_the_share_while_the_budget_is_tight(bench):
    bench.door.connections.limits.outbound_bytes_max = 1 << 20
    bench.outbox.pause()
    for other in [Other() for _ in range(7)]:
        bench.door.connections.budget.note(other, 1 << 16)
    for _ in range(1_000):
        bench.outbox.send_live(1, bytes(1_000))
        bench.loop.run()
        assert bench.door.connections.budget.used <= 1 << 20
    assert bench.outbox.counted <= bench.door.connections.budget.share + 1_000
    assert bench.counters.drops[DropReason.SLOW_READER] > 500


def test_what_a_connection_held_is_free_when_it_is_gone(bench):
    bench.outbox.send(bytes(500))
    bench.outbox.pause()
    bench.loop.run()
    assert bench.door.connections.budget.used == 500
    bench.outbox.close()
    bench.outbox.forget()
    assert bench.door.connections.budget.used == 0


class Other:
    """The outbox of another client."""

    def __init__(self) -> None:
        self.counted = 0
        self.resumed = 0
        self.given_up = False
        self.next = 0

    def resume(self) -> None:
        self.resumed += 1

    def refresh(self) -> None:
        pass

    def give_up(self) -> None:
        self.given_up = True


def test_those_who_wait_go_on_when_there_is_room_and_no_earlier(bench):
    budget, holder, waiting = bench.door.connections.budget, Other(), Other()
    budget.note(holder, 1 << 20)
    budget.wait(waiting)
    budget.turn(1.0)
    bench.loop.run()
    assert not waiting.resumed
    budget.note(holder, 1 << 19)
    bench.loop.run()
    assert waiting.resumed == 1
    assert not budget.waiting_count


def test_only_a_reader_that_reads_nothing_while_others_wait_for_the_room_is_ended(bench):
    budget, stuck, slow = bench.door.connections.budget, Other(), Other()
    budget.note(stuck, 1 << 19)
    budget.note(slow, 1 << 19)
    for now in range(60):
        budget.turn(float(now))
    assert not stuck.given_up, "nobody waits"
    budget.wait(Other())
    for now in range(60, 63):
        budget.note(slow, slow.counted - 1)
        budget.turn(float(now))
    assert stuck.given_up
    assert not slow.given_up


def test_a_stranger_that_does_not_read_its_answers_is_closed_early(bench):
    bench.door.connections.limits.outbound_bytes_max = 1 << 20
    bench.outbox.restrict(is_stranger=True)
    assert bench.marks[-1] == 8 * 1024
    bench.outbox.pause()
    bench.outbox.send(b"x" * 8 * 1024)
    bench.loop.run()
    assert not bench.given_up
    bench.outbox.send(b"x")
    bench.loop.run()
    assert bench.given_up == [(DisconnectReason.SLOW_READER, "8193 bytes of answers unread")]


def test_whoever_has_logged_in_may_have_more_answers_waiting(bench):
    bench.door.connections.limits.outbound_bytes_max = 1 << 20
    bench.outbox.restrict(is_stranger=True)
    bench.outbox.restrict(is_stranger=False)
    assert bench.marks == [BOUND // 2, 8 * 1024, BOUND // 2]
    bench.outbox.pause()
    bench.outbox.send(b"x" * 100_000)
    bench.loop.run()
    assert not bench.given_up
