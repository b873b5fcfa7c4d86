"""Group commit: what is applied when, what shares a commit, and what a failing disk leads to."""

import asyncio

import pytest
from tests.benches.commit_bench import Bench, turns, until

from penstock.commit import capture_bound
from penstock.commit import pipeline as module
from penstock.commit.recovery import recover
from penstock.core.broker import Broker
from penstock.core.commands import (
    Closed,
    Offered,
    Published,
    Received,
    Released,
    Repeated,
    SessionOpened,
    Subscribed,
    Unsubscribed,
    WillMessage,
)
from penstock.core.effects import SubscribeAnswer, Unkept
from penstock.core.session import PUBACK, PUBREC
from penstock.errors import StorageError, StorageFull
from penstock.obs.counters import Counters
from penstock.obs.reasons import DisconnectReason, DropReason

pytestmark = pytest.mark.asyncio

ANN = SessionOpened(b"ann", 1, clean=False, will=None)
LIVE = SessionOpened(b"live", 2, clean=True, will=None)


def publish(bench: Bench, payload: bytes, *, qos: int = 1, retain: bool = False, outlet="pub"):
    packet_ids = [1] if outlet else []
    bench.pipeline.publish(
        b"t",
        [payload],
        5,
        qos=qos,
        retain=retain,
        packet_ids=packet_ids,
        client=outlet and bench.client(outlet),
    )


def publish_will(bench: Bench, *, retain: bool = False):
    bench.pipeline.publish(b"t", [b"will"], 5, qos=1, retain=retain, keep=True)


def published(bench: Bench) -> list[bytes]:
    return [p for c in bench.applied if isinstance(c, Published) for p in c.payloads]


@pytest.fixture(autouse=True)
def _quick_retry(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 0.01)


# ── order and company ─────────────────────────────────────────────────────────────────────────


async def test_nothing_durable_is_applied_before_its_commit():
    async with Bench() as bench:
        bench.store.gate.clear()
        bench.pipeline.submit(ANN, "ann", durable=True)
        await until(lambda: bench.store.attempts == 1)
        assert bench.applied == []
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert bench.applied == [ANN]


async def test_everything_that_arrives_during_a_commit_is_the_next_batch():
    async with Bench() as bench:
        bench.store.gate.clear()
        publish(bench, b"0")
        await until(lambda: bench.store.attempts == 1)
        for number in range(1, 51):
            publish(bench, b"%d" % number)
            await turns(1)
        assert bench.store.attempts == 1
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert bench.store.attempts == 2
        assert published(bench) == [b"%d" % number for number in range(51)]
        assert bench.store.next_sequence == 52


async def test_what_is_read_in_one_turn_shares_one_commit():
    async with Bench() as bench:
        for number in range(20):
            publish(bench, b"%d" % number)
        await bench.pipeline.drain()
        assert bench.store.attempts == 1


async def test_a_command_that_needs_no_disk_is_applied_at_once_if_nobody_is_before_it():
    async with Bench() as bench:
        bench.pipeline.submit(LIVE, "live", durable=False)
        assert bench.applied == [LIVE]
        assert bench.store.attempts == 0


async def test_a_command_that_needs_no_disk_keeps_its_place_behind_those_that_do():
    async with Bench() as bench:
        bench.store.gate.clear()
        bench.pipeline.submit(ANN, "ann", durable=True)
        await until(lambda: bench.store.attempts == 1)
        bench.pipeline.submit(LIVE, "live", durable=False)
        publish(bench, b"x")
        released = Released(b"live", [1])
        bench.pipeline.submit(released, "live", durable=False)
        await turns()
        assert bench.applied == []
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert [type(command) for command in bench.applied] == [
            SessionOpened,
            SessionOpened,
            Published,
            Released,
        ]


async def test_positions_in_the_batch_are_the_sequences_of_the_journal():
    async with Bench() as bench:
        bench.pipeline.submit(ANN, "ann", durable=True)
        bench.pipeline.submit(Subscribed(b"ann", 1, [(b"t", 1)]), "ann", durable=True)
        bench.pipeline.capture(b"t", [b"a", b"b"], 5)
        publish(bench, b"c")
        await bench.pipeline.drain()
        ((delivery,),) = (each for e in bench.effects for each in e.deliveries.values())
        (message,) = bench.store.read([delivery[4]])
        assert message.payload == delivery[1] == b"c"


async def test_a_qos_2_id_is_in_the_line_until_its_message_has_landed():
    async with Bench() as bench:
        bench.store.gate.clear()
        bench.pipeline.receive(Received(b"ann", [7]), "ann", record=True)
        publish(bench, b"x", qos=2)
        assert bench.pipeline.receiving == {(b"ann", 7)}
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert not bench.pipeline.receiving
        assert bench.effects[-1].acks == {("pub", PUBREC): [1]}


# ── capturing ─────────────────────────────────────────────────────────────────────────────────


async def test_captured_messages_wait_for_company_and_go_by_themselves_in_the_end():
    async with Bench(capture_interval_ms=100) as bench:
        await turns(1)  # uvloop counts from the time at which its turn began
        bench.pipeline.capture(b"t", [b"1"], 5)
        await turns(3)
        assert bench.store.attempts == 0
        bench.pipeline.capture(b"t", [b"2"], 5)
        await until(lambda: bench.counters.captured_total == 2)
        assert bench.store.attempts == 1
        assert bench.pipeline.pending_bytes == 0


async def test_a_large_batch_of_captured_messages_does_not_wait():
    async with Bench(capture_interval_ms=60_000, batch_bytes_target=10) as bench:
        bench.pipeline.capture(b"t", [b"x" * 10], 5)
        await until(lambda: bench.counters.captured_total == 1)


async def test_what_the_journal_cannot_keep_up_with_is_counted_and_bounded():
    async with Bench(capture_pending_bytes_max=100, batch_bytes_target=10) as bench:
        bench.store.gate.clear()
        for _ in range(50):
            bench.pipeline.capture(b"t", [b"x" * 5, b"y" * 5], 5)
            await turns(1)
        assert bench.pipeline.pending_bytes <= 110
        bench.store.gate.set()
        await bench.pipeline.drain()
        dropped = bench.counters.drops[DropReason.CAPTURE_OVERFLOW]
        assert dropped > 0
        assert bench.counters.captured_total + dropped == 100


async def test_a_batch_takes_no_more_than_its_part_of_a_small_journal(monkeypatch):
    """Else one commit could take the journal far beyond its bound."""
    monkeypatch.setattr("penstock.commit.settings.BATCH_BYTES_LEAST", 100)
    async with Bench(journal_bytes_max=0) as bench:
        bench.store.gate.clear()
        publish(bench, b"x")
        await until(lambda: bench.store.attempts == 1)
        for _ in range(50):
            bench.pipeline.capture(b"t", [b"x" * 10], 5)
        assert bench.pipeline.pending_bytes <= 61  # half, because a client waits for the disk
        assert bench.counters.drops[DropReason.CAPTURE_OVERFLOW] >= 44
        assert not bench.pipeline.is_congested
        publish(bench, b"x" * 101)
        assert bench.pipeline.is_congested
        bench.store.gate.set()
        await bench.pipeline.drain()


async def test_captured_messages_leave_room_while_somebody_waits_for_the_disk(monkeypatch):
    """A flood of QoS 0 must not make acknowledgements wait for all of its backlog."""
    monkeypatch.setattr(capture_bound, "CAPTURE_BESIDE_WAITING_BYTES_MAX", 20)
    async with Bench(capture_pending_bytes_max=1_000) as bench:
        bench.store.gate.clear()
        for _ in range(10):
            bench.pipeline.capture(b"t", [b"x" * 5], 5)
        assert not bench.counters.drops[DropReason.CAPTURE_OVERFLOW]
        publish(bench, b"x")
        bench.pipeline.capture(b"t", [b"x" * 5], 5)
        assert bench.counters.drops[DropReason.CAPTURE_OVERFLOW] == 1
        bench.clock.advance(module.WAITING_S)
        bench.pipeline.capture(b"t", [b"x" * 5], 5)
        assert bench.counters.drops[DropReason.CAPTURE_OVERFLOW] == 1
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert bench.counters.captured_total == 12


async def test_publishers_are_asked_to_wait_when_the_open_batch_is_large(monkeypatch):
    monkeypatch.setattr("penstock.commit.pipeline.BATCH_BYTES_MAX", 100)
    resumed = []

    class Reader:
        def resume_reading(self) -> None:
            resumed.append(self)

    async with Bench() as bench:
        bench.store.gate.clear()
        publish(bench, b"x")
        await until(lambda: bench.store.attempts == 1)
        publish(bench, b"x" * 101)
        assert bench.pipeline.is_congested
        bench.pipeline.when_drained(Reader())
        assert not resumed
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert not bench.pipeline.is_congested
        assert len(resumed) == 1


# ── failing ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "reason", "drop"),
    [
        (StorageFull("full"), DisconnectReason.STORAGE_FULL, DropReason.STORAGE_FULL),
        (StorageError("broken"), DisconnectReason.STORAGE_FAILED, DropReason.STORAGE_FAILED),
    ],
)
async def test_a_failed_commit_refuses_exactly_its_commands(error, reason, drop):
    async with Bench() as bench:
        bench.store.gate.clear()
        bench.store.error = error
        publish(bench, b"1", outlet="first")
        bench.pipeline.receive(Received(b"two", [9]), "two", record=True)
        publish(bench, b"2", qos=2, outlet="second")
        bench.pipeline.capture(b"t", [b"3", b"4"], 5)
        bench.pipeline.submit(LIVE, "live", durable=False)
        await until(lambda: bench.store.attempts == 1)
        publish(bench, b"5", outlet="third")
        failing = bench.pipeline.refused

        def mend(batch, outcome) -> None:
            bench.store.error = None
            failing(batch, outcome)

        bench.pipeline.refused = mend
        bench.store.gate.set()
        await until(lambda: bench.store.next_sequence == 2)
        await bench.pipeline.drain()

        assert bench.refused == [("first", reason), ("second", reason)]
        assert bench.applied[0] == LIVE  # needed no disk
        assert published(bench) == [b"5"]
        assert bench.counters.drops[drop] == 2
        assert bench.counters.drops[DropReason.CAPTURE_FAILED] == 2
        assert bench.counters.commit_failures_total == 1
        assert bench.pipeline.failure is None
        assert not bench.pipeline.receiving


async def test_the_failure_is_there_to_be_seen_until_a_commit_succeeds():
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        publish(bench, b"1")
        await bench.pipeline.drain()
        assert bench.pipeline.failure is bench.store.error
        bench.store.error = None
        publish(bench, b"2")
        await bench.pipeline.drain()
        assert bench.pipeline.failure is None


async def test_what_nobody_can_repeat_is_kept_and_tried_again():
    """The end of a connection, and its will before it."""
    async with Bench() as bench:
        bench.pipeline.submit(ANN, "ann", durable=True)
        await bench.pipeline.drain()
        bench.store.error = StorageFull("full")
        publish_will(bench)
        closed = Closed(b"ann", 1, 7)
        bench.pipeline.submit(closed, None, durable=True)
        await until(lambda: bench.store.attempts >= 3)
        assert bench.applied == [ANN]
        bench.store.error = None
        await until(lambda: len(bench.applied) == 3)
        assert published(bench) == [b"will"]
        assert bench.applied[-1] == closed
        assert bench.store.next_sequence == 2  # one copy
        again = Broker(Counters())
        recover(bench.store, again)
        assert not again.sessions[b"ann"].connected


async def test_a_failing_disk_is_left_alone_for_a_while_before_it_is_tried_again(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 60.0)
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        bench.pipeline.submit(Closed(b"ann", 1, 7), None, durable=True)
        await until(lambda: bench.counters.commit_failures_total > 0)
        assert bench.timers.delays == [60.0]
        assert bench.store.attempts == 1


async def test_a_message_that_is_kept_is_not_counted_as_dropped():
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        publish_will(bench)
        await until(lambda: bench.counters.commit_failures_total > 0)
        bench.store.error = None
        await bench.pipeline.drain()
        await until(lambda: bench.counters.captured_total == 1)
        assert sum(bench.counters.drops.values()) == 0


async def test_a_message_that_is_kept_has_the_time_of_its_arrival():
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        publish_will(bench, retain=True)
        await until(lambda: bench.counters.commit_failures_total > 0)
        bench.store.error = None
        await until(lambda: bench.counters.captured_total == 1)
        assert bench.store.read([1])[0].time_ms == 5


async def test_a_will_that_was_kept_does_not_replace_a_newer_retained_message():
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        publish_will(bench, retain=True)
        await until(lambda: bench.counters.commit_failures_total > 0)
        bench.store.error = None
        publish(bench, b"back", retain=True)
        await until(lambda: bench.counters.captured_total == 2)
        await bench.pipeline.drain()
        assert bench.broker.retained.get(b"t").payload == b"back"


async def test_a_retained_message_of_qos_0_that_the_disk_refuses_is_counted_not_kept():
    async with Bench() as bench:
        bench.store.error = StorageFull("full")
        publish(bench, b"x", qos=0, retain=True, outlet=None)
        await until(lambda: bench.counters.commit_failures_total > 0)
        assert bench.counters.drops[DropReason.STORAGE_FULL] == 1
        assert bench.pipeline.is_idle


async def test_the_line_is_not_idle_while_something_is_kept():
    async with Bench() as bench:
        assert bench.pipeline.is_idle
        bench.store.error = StorageFull("full")
        bench.pipeline.submit(Closed(b"ann", 1, 7), None, durable=True)
        assert not bench.pipeline.is_idle
        await until(lambda: bench.counters.commit_failures_total > 0)
        assert not bench.pipeline.is_idle
        bench.store.error = None
        await until(lambda: bench.pipeline.is_idle)


@pytest.mark.parametrize("durability", ["sync", "interval"])
async def test_after_the_close_nothing_more_is_committed_and_nobody_is_hurt(durability):
    """What is in the pipeline at that time was not accepted; timers and retries may still follow."""
    hurt = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: hurt.append(context))
    async with Bench(durability=durability, durability_interval_ms=1) as bench:
        bench.store.error = StorageFull("full")
        publish(bench, b"will", outlet=None)
        await until(lambda: bench.counters.commit_failures_total > 0)
        bench.pipeline.close()
        attempts = bench.store.attempts
        publish(bench, b"later")
        bench.pipeline.submit(ANN, "ann", durable=True)
        bench.pipeline.capture(b"t", [b"x"], 5)
        bench.pipeline.run_on_writer(lambda: None)
        bench.pipeline.turn()
        bench.timers.fire()
        await turns(3)
        assert bench.store.attempts == attempts
        assert not hurt


@pytest.mark.parametrize("durability", ["sync", "interval"])
async def test_the_next_sequence_follows_what_was_applied(durability):
    async with Bench(durability=durability, durability_interval_ms=1) as bench:
        assert bench.pipeline.next_sequence == 1
        for payload in (b"1", b"2"):
            publish(bench, payload)
            await bench.pipeline.drain()
        assert bench.pipeline.next_sequence == bench.store.next_sequence == 3


async def test_a_bug_in_applying_costs_its_own_client_only():
    async with Bench() as bench:

        def broken(command, outlet, effects) -> None:
            if outlet == "unlucky":
                raise ValueError
            bench._note(command, outlet, effects)

        bench.broker.apply = broken
        publish(bench, b"1", outlet="unlucky")
        publish(bench, b"2", outlet="lucky")
        await bench.pipeline.drain()
        assert bench.refused == [("unlucky", DisconnectReason.INTERNAL_ERROR)]
        assert published(bench) == [b"2"]


@pytest.mark.parametrize("durability", ["sync", "interval"])
async def test_drain_returns_when_a_commit_fails(durability):
    async with Bench(durability=durability, durability_interval_ms=1) as bench:
        bench.store.error = StorageFull("full")
        publish(bench, b"1")
        async with asyncio.timeout(30):
            await bench.pipeline.drain()
        assert bench.counters.commit_failures_total == 1


async def test_every_message_is_captured_or_counted_as_dropped():
    async with Bench(capture_pending_bytes_max=60, batch_bytes_target=20) as bench:
        sent = 0
        for number in range(60):
            bench.store.error = StorageFull("full") if number % 7 == 3 else None
            if number % 5 == 0:
                publish(bench, b"x" * 4)
                sent += 1
            else:
                bench.pipeline.capture(b"t", [b"y" * 4] * 3, 5)
                sent += 3
            if number % 20 == 8:  # what comes now waits, and soon there is too much of it
                bench.store.gate.clear()
            elif number % 20 == 15:
                bench.store.gate.set()
            if bench.store.gate.is_set():
                await bench.pipeline.drain()
            await turns(1)
        bench.store.gate.set()
        bench.store.error = None
        await bench.pipeline.drain()
        counters = bench.counters
        assert counters.drops[DropReason.CAPTURE_OVERFLOW]
        assert counters.drops[DropReason.STORAGE_FULL]
        assert counters.captured_total + sum(counters.drops.values()) == sent
        assert bench.store.next_sequence - 1 == counters.captured_total


# ── durability "interval" ─────────────────────────────────────────────────────────────────────


async def test_interval_applies_first_and_commits_later():
    async with Bench(durability="interval", durability_interval_ms=5) as bench:
        publish(bench, b"1")
        publish(bench, b"2")
        await turns(2)
        assert published(bench) == [b"1", b"2"]
        assert bench.store.attempts == 0
        assert bench.effects[-1].acks == {("pub", PUBACK): [1, 1]}
        await until(lambda: bench.store.next_sequence == 3)
        assert bench.store.attempts == 1


async def test_interval_keeps_the_same_batch_until_it_is_stored():
    async with Bench(durability="interval", durability_interval_ms=1) as bench:
        bench.store.error = StorageFull("full")
        publish(bench, b"1")
        await until(lambda: bench.counters.commit_failures_total >= 2)
        publish(bench, b"2")
        await turns(2)
        assert published(bench) == [b"1", b"2"]
        bench.store.error = None
        await until(lambda: bench.store.next_sequence == 3)
        assert [m.payload for m in bench.store.read([1, 2])] == [b"1", b"2"]
        assert sum(bench.counters.drops.values()) == 0
        assert not bench.refused


async def test_interval_gives_messages_the_sequences_they_will_have():
    async with Bench(durability="interval", durability_interval_ms=1) as bench:
        bench.pipeline.submit(ANN, "ann", durable=True)
        bench.pipeline.submit(Subscribed(b"ann", 1, [(b"t", 1)]), "ann", durable=True)
        bench.store.gate.clear()
        publish(bench, b"0")
        await until(lambda: bench.store.attempts == 1)
        for number in range(1, 5):
            publish(bench, b"%d" % number)
            await turns(2)
        bench.store.gate.set()
        await bench.pipeline.drain()
        sequences = {
            delivery[1]: delivery[4]
            for effects in bench.effects
            for deliveries in effects.deliveries.values()
            for delivery in deliveries
        }
        for payload, sequence in sequences.items():
            assert bench.store.read([sequence])[0].payload == payload
        assert len(sequences) == 5


async def test_interval_applies_a_follow_up_that_joins_while_the_batch_is_sealed():
    """SUBSCRIBE and the end of the interval in one turn of the loop: SUBACK must come."""
    async with Bench(durability="interval", durability_interval_ms=60_000) as bench:
        publish(bench, b"kept", retain=True)
        bench.pipeline.submit(ANN, "ann", durable=True)
        await turns(3)
        bench.pipeline.submit(Subscribed(b"ann", 3, [(b"t", 1)]), "ann", durable=True)
        bench.pipeline._timer_fired()
        await bench.pipeline.drain()
        await turns(3)
        assert any(isinstance(command, Offered) for command in bench.applied)
        controls = [control for effects in bench.effects for control in effects.controls]
        assert SubscribeAnswer("ann", 3, [1]) in controls


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────


async def idle(bench: Bench, seconds: int) -> None:
    """Seconds without traffic, as the server's turns would see them."""
    for _ in range(seconds * 4):
        bench.clock.advance(0.25)
        bench.pipeline.turn()
        await until(lambda: not bench.pipeline._in_flight)


async def test_an_idle_broker_comes_to_rest():
    async with Bench() as bench:
        bench.pipeline.submit(ANN, "ann", durable=True)
        publish(bench, b"x", retain=True)
        await bench.pipeline.drain()
        await idle(bench, 5)
        commits = bench.store.attempts
        assert commits <= 4
        await idle(bench, 60)
        assert bench.store.attempts == commits
        assert set(bench.store._rows) == {"sessions", "retained"}


async def test_captured_messages_alone_move_the_mark():
    async with Bench() as bench:
        for _ in range(5):
            bench.pipeline.capture(b"t", [b"x"], 5)
            await bench.pipeline.drain()
            await idle(bench, 2)
        await idle(bench, 5)
        assert len(list(bench.store.replay())) <= 2


async def test_captured_messages_alone_move_the_mark_under_interval_too():
    async with Bench(durability="interval", durability_interval_ms=1) as bench:
        for _ in range(5):
            bench.pipeline.capture(b"t", [b"x"], 5)
            await bench.pipeline.drain()
            await idle(bench, 2)
        await idle(bench, 5)
        commits = bench.store.attempts
        assert len(list(bench.store.replay())) <= 2
        await idle(bench, 10)
        assert bench.store.attempts == commits


async def test_rows_of_a_failed_commit_are_written_by_the_next():
    async with Bench() as bench:
        bench.pipeline.submit(ANN, "ann", durable=True)
        await bench.pipeline.drain()
        bench.store.error = StorageFull("full")
        bench.clock.advance(2)
        bench.pipeline.turn()
        await until(lambda: bench.counters.commit_failures_total == 1)
        assert not dict(bench.store.rows("sessions"))
        bench.store.error = None
        await idle(bench, 3)
        assert list(dict(bench.store.rows("sessions"))) == [b"ann"]


async def test_a_retained_message_has_the_same_time_after_a_restart():
    async with Bench() as bench:
        publish(bench, b"x", retain=True)
        await bench.pipeline.drain()
        again = Broker(Counters())
        recover(bench.store, again)
        assert again.retained.match(b"#") == bench.broker.retained.match(b"#")


async def test_a_repeated_qos_2_message_is_acknowledged_after_its_own_commit():
    """The commit under way lacks the message; its answer must not wait for that one only."""
    async with Bench() as bench:
        await in_the_line_behind_another_commit(bench)
        stored = []
        execute = bench.pipeline._applier.execute

        def note(effects) -> None:
            if any(kind == PUBREC for _, kind in effects.acks):
                stored.append(bench.store.next_sequence)
            execute(effects)

        bench.pipeline._applier.execute = note
        bench.store.gate.set()
        await bench.pipeline.drain()
        assert stored == [3]
        assert bench.effects[-1].acks == {("ann", PUBREC): [7, 7]}


async def test_a_repetition_whose_first_copy_the_disk_refuses_must_be_sent_again():
    async with Bench() as bench:
        await in_the_line_behind_another_commit(bench)
        bench.store.error = StorageFull("full")
        bench.store.gate.set()
        await until(lambda: bench.counters.commit_failures_total == 2)
        controls = [control for effects in bench.effects for control in effects.controls]
        assert controls[-1] == Unkept("ann")
        assert not any(
            kind == PUBREC for e in bench.effects for (_, kind), ids in e.acks.items() if ids
        )
        assert not bench.pipeline.receiving


async def in_the_line_behind_another_commit(bench: Bench) -> None:
    """A QoS 2 message of ann's and its repetition, while the disk is busy with another."""
    bench.pipeline.submit(ANN, "ann", durable=True)
    await bench.pipeline.drain()
    bench.store.gate.clear()
    publish(bench, b"other")
    await until(lambda: bench.store.attempts == 2)
    bench.pipeline.receive(Received(b"ann", [7]), "ann", record=True)
    bench.pipeline.publish(
        b"t", [b"x"], 5, qos=2, retain=False, packet_ids=[7], client=bench.client("ann")
    )
    bench.pipeline.submit(Repeated(b"ann", [7]), "ann", durable=False)


async def test_a_job_runs_between_commits():
    async with Bench() as bench:
        seen = []
        publish(bench, b"x")
        await turns(2)
        bench.pipeline.run_on_writer(lambda: seen.append(bench.store.next_sequence))
        await bench.pipeline.drain()
        await until(lambda: bool(seen))
        assert seen == [2]


async def test_will_and_received_and_unsubscribed_travel_as_events():
    """What a restart reads is what was applied."""
    will = WillMessage(b"w", b"bye", 1, retain=False)
    async with Bench() as bench:
        bench.pipeline.submit(SessionOpened(b"ann", 1, clean=False, will=will), "ann", durable=True)
        bench.pipeline.submit(Subscribed(b"ann", 1, [(b"a", 1), (b"b", 2)]), "ann", durable=True)
        bench.pipeline.submit(Unsubscribed(b"ann", 1, [b"a"]), "ann", durable=True)
        bench.pipeline.receive(Received(b"ann", [5]), "ann", record=True)
        publish(bench, b"x", qos=2)
        bench.pipeline.receive(Received(b"bob", [6]), "bob", record=False)
        publish(bench, b"y", qos=2)
        await bench.pipeline.drain()
        assert sum(isinstance(command, Received) for command in bench.applied) == 2
        again = Broker(Counters())
        recover(bench.store, again)
        session = again.sessions[b"ann"]
        assert (session.will, session.subscriptions, session.received) == (will, {b"b": 2}, {5})
