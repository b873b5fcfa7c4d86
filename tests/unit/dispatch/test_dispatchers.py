"""Dealing: who gets how many, who settles and leaves, and what happens when the disk refuses."""

import threading
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio
from tests.benches.commit_bench import until
from tests.benches.dispatch_bench import GROUP, LEASE_MS, TOPIC, Bench, Told, Worker, numbered

from penstock.dispatch import backlog as backlog_module
from penstock.dispatch import dispatcher as module
from penstock.dispatch import dispatchers as dispatchers_module
from penstock.dispatch import leases as leases_module
from penstock.dispatch.dispatchers import Dispatchers
from penstock.dispatch.groups import Start, StartAt
from penstock.errors import StorageFull
from penstock.model.queue_names import is_queue
from penstock.obs.reasons import DisconnectReason

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


@pytest_asyncio.fixture
async def group(bench: Bench) -> Bench:
    """The bench, with a group that has three messages and no worker."""
    bench.push(*numbered(3))
    bench.dispatchers.groups.create(TOPIC, GROUP, Start(), Told())
    await bench.rest()
    return bench


async def choose(bench: Bench, worker: Worker) -> None:
    """Let messages be chosen for a worker; the disk does not note it before the gate opens."""
    bench.store.gate.clear()
    attempts = bench.store.attempts
    bench.join(worker)
    await until(lambda: bench.store.attempts > attempts)


class Reading(NamedTuple):
    """A worker for which three messages are being read, until the test releases the read."""

    worker: Worker
    resume: threading.Event


@pytest_asyncio.fixture
async def reading(group: Bench, monkeypatch: pytest.MonkeyPatch) -> Reading:
    """A deal that is held up between choosing and noting; the disk takes other commands."""
    bench = group
    resume, read_topic = threading.Event(), bench.store.read_topic

    def read(*arguments):
        found = read_topic(*arguments)
        assert resume.wait(10)
        return found

    monkeypatch.setattr(bench.store, "read_topic", read)
    worker = Worker("reading")
    bench.join(worker)
    await until(lambda: bench.dispatchers.is_serving(TOPIC, GROUP, worker.consumer))
    return Reading(worker, resume)


async def test_what_is_a_queue():
    assert is_queue(b"q:x")
    assert is_queue(b"q:")
    assert not is_queue(b"q")
    assert not is_queue(b"x/q:")


# ── round-robin and room


@pytest.mark.parametrize(
    ("rooms", "shares"),
    [
        ([10, 10], [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]),
        ([1, 10], [[b"0"], [b"1", b"2", b"3", b"4", b"5"]]),
        ([10, 0], [numbered(6), []]),
        ([1, 1], [[b"0"], [b"1"]]),
    ],
)
async def test_jobs_go_round_among_those_who_have_room(bench, rooms, shares):
    workers = [Worker(f"w{number}", room) for number, room in enumerate(rooms)]
    bench.join(*workers)
    bench.push(*numbered(6))
    await bench.rest()
    assert [worker.payloads for worker in workers] == shares


async def test_workers_who_do_not_insist_on_turns_get_even_parts_in_one_piece(bench):
    workers = [Worker(f"w{number}", takes_turns=False) for number in range(3)]
    bench.join(*workers)
    bench.push(*numbered(7))
    await bench.rest()
    assert [worker.offsets for worker in workers] == [[0, 1, 2], [3, 4], [5, 6]]


async def test_a_worker_that_comes_where_nothing_is_hears_so_once(bench):
    worker = Worker("w")
    bench.join(worker)
    await bench.rest()
    bench.dispatch()
    assert worker.idled == 1


async def test_a_worker_that_comes_to_an_empty_queue_troubles_no_other(bench):
    bench.join(Worker("first"))
    await bench.rest()
    asked = [Worker(f"w{number}") for number in range(100)]
    bench.join(*asked)
    assert sum(worker.asked for worker in asked) <= 100 * 101 / 2
    assert all(worker.idled == 1 for worker in asked)


async def test_the_turn_goes_on_where_it_was(bench):
    workers = [Worker(f"w{number}") for number in range(3)]
    bench.join(*workers)
    for job in numbered(4):
        bench.push(job)
        await bench.rest()
    assert [worker.payloads for worker in workers] == [[b"0", b"3"], [b"1"], [b"2"]]


async def test_a_worker_that_is_full_is_given_more_when_it_has_room(bench):
    worker = Worker("w", 2)
    bench.join(worker)
    bench.push(*numbered(5))
    await bench.rest()
    assert worker.offsets == [0, 1]
    worker.capacity = 2
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases, Told())
    bench.dispatch()
    await bench.rest()
    assert worker.offsets == [0, 1, 2, 3]


async def test_no_more_bytes_are_dealt_at_a_time_than_may_be_in_memory(bench, monkeypatch):
    monkeypatch.setattr(module, "ROUND_BYTES_MAX", 10)
    dealt: list[int] = []
    worker = Worker("w")
    worker.work = lambda jobs: dealt.append(len(jobs))  # type: ignore[method-assign]
    bench.push(*[b"four"] * 5, b"much more than that", *[b"four"] * 2)
    await bench.rest()
    bench.join(worker)
    await until(lambda: sum(dealt) == 8)
    assert dealt == [3, 3, 2]


async def test_what_every_worker_of_a_group_got_the_next_group_gets_too(bench):
    worker, other = Worker("w"), Worker("other")
    bench.join(worker)
    bench.join(other, group=b"others")
    bench.push(*numbered(3))
    await bench.rest()
    assert worker.payloads == other.payloads == numbered(3)


async def test_old_messages_are_read_and_fresh_ones_are_at_hand(bench, monkeypatch):
    reads: list[int] = []
    read_topic = bench.store.read_topic

    def count(*arguments):
        reads.append(arguments[1])
        return read_topic(*arguments)

    monkeypatch.setattr(bench.store, "read_topic", count)
    bench.push(*numbered(2))
    await bench.rest()
    worker = Worker("w")
    bench.join(worker)
    await bench.rest()
    assert reads == [0]
    bench.push(*numbered(2))
    await bench.rest()
    assert worker.offsets == [0, 1, 2, 3]
    assert reads == [0]


async def test_what_is_at_hand_is_bounded_and_the_rest_is_read(bench, monkeypatch):
    monkeypatch.setattr(backlog_module, "RECENT_PARTS_MAX", 1)
    worker = Worker("w", 0)
    bench.join(worker)
    for job in numbered(4):
        bench.push(job)
        await bench.rest()
    worker.capacity = 10
    bench.dispatch()
    await bench.rest()
    assert worker.payloads == numbered(4)


# ── settling


async def test_a_job_is_pending_until_it_is_settled(bench):
    named = Worker("named")
    settling = Worker("settling", visibility_ms=LEASE_MS, settles=True)
    bench.join(named, settling)
    bench.push(*numbered(4))
    await bench.rest()
    assert sorted(bench.group.pending) == named.offsets == [0, 2]
    assert settling.offsets == [1, 3]
    bench.dispatchers.leases.settle(TOPIC, GROUP, named.leases[1:], Told())
    await bench.rest()
    assert sorted(bench.group.pending) == [0]


async def test_who_settles_can_be_told_when_the_disk_has_it(bench):
    worker, told = Worker("w"), Told()
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases, told)
    assert not told.values
    await bench.rest()
    assert told.values == [1]


async def test_a_lease_is_settled_by_its_number_whoever_asks(bench):
    worker, told = Worker("w", visibility_ms=LEASE_MS), Told()
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases[1:], told)
    await bench.rest()
    assert told.values == [2]
    assert sorted(bench.group.pending) == [0]


async def test_a_lease_that_is_over_is_answered_without_the_disk(bench):
    told, attempts = Told(), bench.store.attempts
    bench.dispatchers.leases.settle(TOPIC, GROUP, [7], told)
    bench.dispatchers.leases.give_back(TOPIC, GROUP, [7], told)
    bench.dispatchers.leases.extend(TOPIC, GROUP, [7], 1_000, told)
    assert told.values == [0, 0, 0]
    assert bench.store.attempts == attempts


async def test_leases_of_one_deal_are_numbered_in_the_order_of_delivery(bench):
    workers = [Worker(f"w{n}", visibility_ms=LEASE_MS, takes_turns=False) for n in range(2)]
    bench.join(*workers)
    bench.push(*numbered(4))
    await bench.rest()
    assert [worker.leases for worker in workers] == [[0, 1], [2, 3]]


# ── leaving


async def test_what_a_worker_had_when_it_left_goes_to_the_next_before_anything_newer(bench):
    dying, living = Worker("dying", 2), Worker("living", 0)
    bench.join(dying, living)
    bench.push(*numbered(4))
    await bench.rest()
    bench.leave(dying)
    await bench.rest()
    living.capacity = 3
    bench.dispatch()
    await bench.rest()
    assert living.offsets == [0, 1, 2]
    assert [job.deliveries for job in living.jobs] == [2, 2, 1]


async def test_a_worker_that_rests_keeps_what_it_has_and_gets_no_more(bench):
    worker = Worker("w", 2)
    bench.join(worker)
    bench.push(*numbered(2))
    await bench.rest()
    bench.dispatchers.rest(TOPIC, GROUP, worker.consumer)
    worker.capacity = 10
    bench.push(b"2")
    await bench.rest()
    assert worker.offsets == [0, 1]
    assert sorted(bench.group.pending) == [0, 1]


async def test_jobs_of_one_who_left_while_they_were_read_go_to_the_next(bench, reading):
    staying = Worker("staying")
    bench.leave(reading.worker)
    bench.join(staying)
    reading.resume.set()
    await bench.rest()
    assert reading.worker.jobs == []
    assert staying.payloads == numbered(3)


async def test_jobs_of_one_who_left_while_they_were_on_their_way_go_to_the_next(group):
    leaving, staying = Worker("leaving"), Worker("staying")
    await choose(group, leaving)
    group.leave(leaving)
    group.join(staying)
    group.store.gate.set()
    await group.rest()
    assert leaving.jobs == []
    assert staying.payloads == numbered(3)


async def test_who_leaves_and_comes_back_meanwhile_gets_no_job_that_another_gets(group):
    back, other = Worker("back"), Worker("other")
    await choose(group, back)
    group.leave(back)
    group.join(back, other)
    group.store.gate.set()
    await group.rest()
    assert sorted(back.payloads + other.payloads) == numbered(3)


async def test_a_poll_that_is_gone_when_its_jobs_come_gives_them_back_uncounted(group):
    gone, next_one = Worker("gone", visibility_ms=LEASE_MS), Worker("next")
    await choose(group, gone)
    group.dispatchers.rest(TOPIC, GROUP, gone.consumer)
    group.store.gate.set()
    await group.rest()
    group.join(next_one)
    await group.rest()
    assert gone.jobs == []
    assert [job.deliveries for job in next_one.jobs] == [1, 1, 1]


async def test_a_worker_without_room_by_now_is_given_nothing(bench):
    worker = Worker("w", 0)
    bench.push(*numbered(3))
    bench.join(worker)
    await bench.rest()
    assert worker.jobs == []
    worker.capacity = 10
    bench.dispatch()
    await bench.rest()
    assert worker.payloads == numbered(3)


async def test_after_a_start_jobs_of_the_last_life_go_to_whoever_is_there_already(bench):
    """A worker may have arrived before they are returned: it gets them then."""
    last = Worker("of the last life")
    bench.join(last)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.rest(TOPIC, GROUP, last.consumer)
    bench.close_desks()
    bench.dispatchers = bench.parts.dispatchers = Dispatchers(bench.dispatchers._parts)
    early = Worker("early")
    bench.store.gate.clear()
    bench.dispatchers.return_workers(lambda _node: True)
    bench.dispatchers.led(is_leader=True)
    bench.join(early)
    bench.store.gate.set()
    await bench.rest()
    assert early.payloads == numbered(3)


async def test_no_lease_has_a_number_that_one_of_the_last_life_had(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    assert worker.leases == [0, 1, 2]
    assert Dispatchers(bench.dispatchers._parts).leases.reserve(1) == 3


async def test_a_desk_that_nobody_comes_to_any_more_is_closed_and_costs_nothing(bench):
    worker = Worker("w")
    bench.join(worker)
    assert bench.dispatchers.workers(TOPIC, GROUP) == 1
    bench.leave(worker)
    assert bench.dispatchers.workers(TOPIC, GROUP) == 0
    await bench.rest()
    assert bench.parts.feed.is_wanted
    bench.close_desks()
    assert not bench.parts.feed.is_wanted


async def test_a_desk_that_somebody_came_back_to_stays_open(bench):
    worker = Worker("w")
    bench.join(worker)
    bench.dispatchers.rest(TOPIC, GROUP, worker.consumer)
    bench.join(worker)
    bench.close_desks()
    bench.push(b"0")
    await bench.rest()
    assert worker.payloads == [b"0"]


async def test_of_desks_that_nobody_comes_to_only_some_stay_open(bench, monkeypatch):
    monkeypatch.setattr(dispatchers_module, "RESTING_MAX", 2)
    for number in range(4):
        group = b"%d" % number
        bench.join(Worker("w"), group=group)
        bench.dispatchers.rest(TOPIC, group, b"w")
    open_ones = [n for n in range(4) if bench.dispatchers.dispatcher(TOPIC, b"%d" % n) is not None]
    assert open_ones == [2, 3]
    await bench.rest()


# ── the disk


async def test_when_the_disk_refuses_to_deal_the_workers_know_and_no_job_is_lost(bench):
    bench.push(*numbered(3))
    await bench.rest()
    bench.store.error = StorageFull("no room")
    refused = Worker("refused")
    bench.join(refused)
    await until(lambda: refused.closed == [DisconnectReason.STORAGE_FULL])
    assert refused.jobs == []
    bench.store.error = None
    bench.leave(refused)
    next_one = Worker("next")
    bench.join(next_one)
    await bench.rest()
    assert next_one.payloads == numbered(3)


async def test_jobs_are_given_back_until_the_disk_takes_it(bench, monkeypatch):
    monkeypatch.setattr(leases_module, "RETRY_S", 0.001)
    dying, living = Worker("dying"), Worker("living")
    bench.join(dying)
    bench.push(*numbered(3))
    await bench.rest()
    bench.join(living)
    bench.store.error = StorageFull("no room")
    bench.leave(dying)
    attempts = bench.store.attempts
    await until(lambda: bench.store.attempts > attempts + 2)
    bench.store.error = None
    await until(lambda: living.payloads == numbered(3))


async def test_who_gives_a_lease_back_hears_that_the_disk_refused(bench):
    worker, told = Worker("w", visibility_ms=LEASE_MS), Told()
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.store.error = StorageFull("no room")
    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases, told)
    await until(lambda: told.refusals == [DisconnectReason.STORAGE_FULL])
    assert worker.leases == list(bench.group.leases)


async def test_jobs_that_retention_took_are_passed_over_and_the_rest_is_dealt(bench):
    bench.push(*numbered(5))
    await bench.rest()
    bench.store.trim(TOPIC, 2)
    worker = Worker("w")
    bench.join(worker)
    await bench.rest()
    assert worker.payloads == [b"2", b"3", b"4"]
    assert sorted(bench.group.pending) == [2, 3, 4]


async def test_jobs_that_are_deleted_between_choosing_and_reading_are_settled(bench):
    worker = Worker("w", 0)
    bench.push(*numbered(4))
    bench.join(worker)
    await bench.rest()
    bench.store.delete(TOPIC, [1, 2])
    worker.capacity = 10
    bench.dispatch()
    await bench.rest()
    assert worker.payloads == [b"0", b"3"]
    assert sorted(bench.group.pending) == [0, 3]


# ── groups that move, topics that go


async def test_a_new_group_starts_with_the_oldest_message_unless_told_otherwise(bench):
    bench.push(*numbered(3))
    await bench.rest()
    latest, third = Worker("latest"), Worker("third")
    bench.dispatchers.groups.create(TOPIC, b"latest", Start(StartAt.LATEST), Told())
    bench.dispatchers.groups.create(TOPIC, b"third", Start(StartAt.OFFSET, 2), Told())
    await bench.rest()
    earliest = Worker("earliest")
    bench.join(earliest)
    bench.join(latest, group=b"latest")
    bench.join(third, group=b"third")
    bench.push(b"3")
    await bench.rest()
    assert earliest.offsets == [0, 1, 2, 3]
    assert latest.offsets == [3]
    assert third.offsets == [2, 3]


async def test_a_group_that_was_moved_back_gets_its_messages_again(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases)
    bench.dispatchers.groups.seek(TOPIC, GROUP, Start(StartAt.OFFSET, 1), Told())
    await bench.rest()
    assert worker.offsets == [0, 1, 2, 1, 2]


async def test_who_has_a_message_keeps_it_when_its_group_is_moved_back(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases[2:])
    bench.dispatchers.groups.seek(TOPIC, GROUP, Start(StartAt.OFFSET, 0), Told())
    await bench.rest()
    assert worker.offsets == [0, 1, 2, 2]
    assert bench.group.leases[worker.leases[3]] == 2


async def test_what_was_chosen_before_a_group_was_moved_is_not_handed_out(bench, reading):
    told = Told()
    bench.dispatchers.groups.seek(TOPIC, GROUP, Start(StartAt.LATEST), told)
    await until(lambda: told.values == [True])
    reading.resume.set()
    await bench.rest()
    assert reading.worker.jobs == []
    bench.push(b"3")
    await bench.rest()
    assert reading.worker.offsets == [3]


async def test_what_was_chosen_before_a_commit_passed_it_is_not_handed_out(bench, reading):
    told = Told()
    bench.dispatchers.groups.commit(TOPIC, GROUP, 2, told)
    await until(lambda: bool(told.values))
    reading.resume.set()
    await bench.rest()
    assert reading.worker.offsets == [2]


async def test_a_topic_deleted_during_a_deal_leaves_nothing_and_begins_anew(bench, reading):
    told = Told()
    bench.dispatchers.topics.delete(TOPIC, told)
    await until(lambda: bool(told.values))
    reading.resume.set()
    await bench.rest()
    assert reading.worker.jobs == []
    bench.push(b"new")
    await bench.rest()
    assert [(job.message.offset, job.message.payload) for job in reading.worker.jobs] == [
        (0, b"new")
    ]


async def test_messages_of_a_name_that_was_deleted_and_came_again_are_the_new_ones(bench, reading):
    """The same offsets were chosen of the old topic, and their messages read."""
    bench.dispatchers.topics.delete(TOPIC, Told())
    await until(lambda: bench.store.topic(TOPIC) is None)
    bench.push(*[b"new"] * 4)
    await until(lambda: bench.store.topic(TOPIC) is not None)
    reading.resume.set()
    await bench.rest()
    assert reading.worker.payloads == [b"new"] * 4
    assert reading.worker.offsets == [0, 1, 2, 3]


async def test_a_deleted_topic_is_not_handed_out_of_memory(bench):
    worker = Worker("w", 0)
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    bench.dispatchers.topics.delete(TOPIC, Told())
    await bench.rest()
    worker.capacity = 10
    bench.push(b"new")
    await bench.rest()
    assert worker.payloads == [b"new"]
