"""What a dispatcher hands out and when: leases, priorities, delays, rates, dead letters."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.commit_bench import until
from tests.benches.dispatch_bench import GROUP, LEASE_MS, TOPIC, Bench, Told, Worker, numbered

from penstock.commit.completion import Callback
from penstock.core.commands import DeadLettered, GroupConfigured, TopicConfigured, to_event
from penstock.dispatch import dead_letters as letters_module
from penstock.dispatch.groups import Start
from penstock.errors import StorageFull
from penstock.model.dead_letters import dead_letter_topic
from penstock.model.message import Extras
from penstock.obs.reasons import DropReason

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


# ── leases


async def test_a_lease_that_runs_out_comes_again_under_another_number(bench):
    worker = Worker("w", visibility_ms=1_000)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    await bench.later(0.999)
    assert worker.offsets == [0]
    await bench.later(0.002)
    assert worker.offsets == [0, 0]
    assert worker.leases[0] != worker.leases[1]
    assert [job.deliveries for job in worker.jobs] == [1, 2]


async def test_a_desk_wakes_by_itself_when_a_lease_ends(bench):
    worker = Worker("w", visibility_ms=5)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.clock.advance(0.006)
    await until(lambda: worker.offsets == [0, 0])


async def test_leases_end_where_nobody_asks_for_messages_any_more(bench):
    worker = Worker("w", visibility_ms=1_000)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.dispatchers.rest(TOPIC, GROUP, worker.consumer)
    bench.clock.advance(1.1)
    for _ in range(2):  # one to find out which groups to look at
        bench.dispatchers.turn()
        await bench.rest()
    assert bench.group.in_flight == 0
    assert bench.group.returned.offsets() == [0]
    assert not bench.parts.broker.groups.timed


async def test_a_late_acknowledgement_counts_until_the_message_was_taken_back(bench):
    """An expired lease ends when ``Swept`` is applied, not before."""
    worker, told = Worker("w", visibility_ms=1_000), Told()
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.clock.advance(5)
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases, told)
    await bench.later(5)
    assert told.values == [1]
    assert worker.offsets == [0]


async def test_a_lease_that_was_extended_runs_on_from_then(bench):
    worker, told = Worker("w", visibility_ms=1_000), Told()
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.clock.advance(0.9)
    bench.dispatchers.leases.extend(TOPIC, GROUP, worker.leases, 1_000, told)
    await bench.rest()
    await bench.later(0.9)
    assert worker.offsets == [0]
    await bench.later(0.2)
    assert worker.offsets == [0, 0]


async def test_a_message_that_was_given_back_comes_at_once(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases)
    await bench.rest()
    assert [job.deliveries for job in worker.jobs] == [1, 2]


async def test_a_message_given_back_with_a_delay_comes_when_that_is_over(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases, delay_ms=2_000)
    await bench.rest()
    await bench.later(1.9)
    assert worker.offsets == [0]
    await bench.later(0.2)
    assert worker.offsets == [0, 0]


async def test_the_pause_after_each_failure_is_twice_that_before(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    configured = GroupConfigured(TOPIC, GROUP, None, 1_000, 3_000)
    bench.join(worker)
    bench.push(b"0")
    await bench.rest()
    await bench.submitted(configured)
    for pause_s in (1, 2, 3, 3):
        before = len(worker.jobs)
        bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases[-1:])
        await bench.rest()
        await bench.later(pause_s - 0.1)
        assert len(worker.jobs) == before
        await bench.later(0.1)
        assert len(worker.jobs) == before + 1


# ── priorities, delays, ends


async def test_the_most_urgent_go_first_and_a_quarter_to_the_oldest(bench):
    bench.push(*numbered(4))
    bench.push(*numbered(4), priority=7)
    await bench.rest()
    worker = Worker("w", 4, visibility_ms=LEASE_MS)
    bench.join(worker)
    await bench.rest()
    assert worker.offsets == [4, 5, 6, 0]


async def test_across_workers_each_message_is_handed_out_once_and_urgent_ones_first(bench):
    for number in range(12):
        bench.push(b"%d" % number, priority=number % 3)
    await bench.rest()
    first = Worker("first", 3, takes_turns=False)
    second = Worker("second", 9, takes_turns=False)
    bench.join(first)
    await bench.rest()
    bench.join(second)
    await bench.rest()
    assert first.offsets == [2, 5, 8]
    assert [offset % 3 for offset in second.offsets] == [2, 1, 1, 1, 1, 0, 0, 0, 0]
    assert sorted(first.offsets + second.offsets) == list(range(12))


async def test_an_urgent_message_that_comes_late_overtakes_those_that_wait(bench):
    worker = Worker("w", 1)
    bench.join(worker)
    bench.push(*numbered(3))
    await bench.rest()
    bench.push(b"urgent", priority=5)
    await bench.rest()
    worker.capacity = 1
    bench.dispatchers.leases.settle(TOPIC, GROUP, worker.leases, Told())
    bench.dispatch()
    await bench.rest()
    assert worker.payloads == [b"0", b"urgent"]


async def test_a_delayed_message_lets_others_pass_and_comes_when_it_is_due(bench):
    worker = Worker("w")
    bench.join(worker)
    bench.push(b"delayed", extras=Extras(due_ms=bench.clock.wall_ms() + 1_000))
    bench.push(b"prompt")
    await bench.rest()
    assert worker.payloads == [b"prompt"]
    await bench.later(0.9)
    assert worker.payloads == [b"prompt"]
    await bench.later(0.2)
    assert worker.payloads == [b"prompt", b"delayed"]
    assert [job.deliveries for job in worker.jobs] == [1, 1]


async def test_a_desk_wakes_by_itself_when_a_message_is_due(bench):
    worker = Worker("w")
    bench.join(worker)
    bench.push(b"delayed", extras=Extras(due_ms=bench.clock.wall_ms() + 5))
    await bench.rest()
    assert worker.jobs == []
    bench.clock.advance(0.006)
    await until(lambda: worker.payloads == [b"delayed"])


async def test_a_schedule_is_kept_when_it_is_read_from_the_journal(bench):
    """Messages that were there before the dispatcher opened have their times and priorities, too."""
    now_ms = bench.clock.wall_ms()
    bench.push(b"delayed", extras=Extras(due_ms=now_ms + 1_000))
    bench.push(b"stale", extras=Extras(expires_ms=now_ms))
    bench.push(b"prompt", b"urgent")
    await bench.rest()
    worker = Worker("w")
    bench.join(worker)
    await bench.rest()
    assert worker.payloads == [b"prompt", b"urgent"]


async def test_a_message_whose_time_is_over_is_never_handed_out_and_counted(bench):
    worker = Worker("w", 0)
    bench.join(worker)
    bench.push(b"stale", extras=Extras(expires_ms=bench.clock.wall_ms() + 1_000))
    bench.push(b"fresh")
    await bench.rest()
    worker.capacity = 10
    await bench.later(1.1)
    assert worker.payloads == [b"fresh"]
    assert bench.parts.counters.drops[DropReason.EXPIRED] == 1


# ── the topic's rate


async def test_a_rate_lets_so_many_through_and_tells_when_more_may_come(bench):
    bench.dispatchers.topics.configure(TopicConfigured(TOPIC, rate_milli=1_000, burst=2))
    worker = Worker("w")
    bench.join(worker)
    bench.push(*numbered(4))
    await bench.rest()
    assert worker.offsets == [0, 1]
    assert len(worker.limits) == 1
    assert 0 < worker.limits[0] <= 1_001
    assert bench.parts.counters.rate_limited_total == 1
    await bench.later(1.01)
    assert worker.offsets == [0, 1, 2]


async def test_a_desk_wakes_by_itself_when_a_token_has_grown(bench):
    bench.dispatchers.topics.configure(TopicConfigured(TOPIC, rate_milli=200_000, burst=1))
    worker = Worker("w")
    bench.join(worker)
    bench.push(*numbered(2))
    await bench.rest()
    assert worker.offsets == [0]
    bench.clock.advance(0.006)
    await until(lambda: worker.offsets == [0, 1])


async def test_groups_of_a_topic_share_its_rate(bench):
    bench.dispatchers.topics.configure(TopicConfigured(TOPIC, rate_milli=1_000, burst=3))
    one, other = Worker("one"), Worker("other")
    bench.join(one)
    bench.join(other, group=b"others")
    bench.push(*numbered(5))
    await bench.rest()
    assert len(one.jobs) + len(other.jobs) == 3


async def test_tokens_of_a_deal_that_the_disk_refused_are_there_for_the_next(group):
    bench = group
    bench.dispatchers.topics.configure(TopicConfigured(TOPIC, rate_milli=1, burst=3))
    await bench.rest()
    bench.store.error = StorageFull("no room")
    refused = Worker("refused")
    bench.join(refused)
    await until(lambda: bool(refused.closed))
    bench.store.error = None
    bench.dispatch()
    await bench.rest()
    assert refused.payloads == numbered(3)


# ── dead letters


async def test_a_message_that_failed_too_often_is_a_dead_letter_with_its_story(bench):
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"bad", priority=3, extras=Extras(headers=((b"own", b"1"),)))
    await bench.rest()
    await bench.submitted(GroupConfigured(TOPIC, GROUP, 2, None, None))
    for _ in range(2):
        bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases[-1:], reason=b"broken")
        await bench.rest()
    assert [job.deliveries for job in worker.jobs] == [1, 2]
    (letter,) = bench.store.read_topic(dead_letter_topic(TOPIC, GROUP), 0, 9, 999).messages()
    assert (letter.payload, letter.priority) == (b"bad", 3)
    assert letter.extras.headers == (
        (b"dlq-topic", TOPIC),
        (b"dlq-group", GROUP),
        (b"dlq-offset", b"0"),
        (b"dlq-attempts", b"2"),
        (b"dlq-reason", b"broken"),
        (b"dlq-time", b"%d" % bench.clock.wall_ms()),
        (b"own", b"1"),
    )
    assert not bench.group.pending


async def test_a_dead_letter_and_that_it_is_one_are_one_commit(bench, monkeypatch):
    """Between two commits a crash could lose it, or keep it twice."""
    commits: list[tuple[set[bytes], set[int]]] = []
    commit = bench.store.commit

    def note(batch):
        commits.append((set(batch.groups), {event[0] for _, event in batch.events}))
        return commit(batch)

    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"bad")
    await bench.rest()
    await bench.submitted(GroupConfigured(TOPIC, GROUP, 1, None, None))
    monkeypatch.setattr(bench.store, "commit", note)
    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases)
    await bench.rest()
    is_buried = to_event(DeadLettered(TOPIC, GROUP, [0]))[0]
    letters = dead_letter_topic(TOPIC, GROUP)
    assert [is_buried in events for topics, events in commits if letters in topics] == [True]


async def test_when_the_disk_refuses_dead_letters_they_are_buried_later(bench, monkeypatch):
    monkeypatch.setattr(letters_module, "RETRY_S", 0.001)
    worker = Worker("w", visibility_ms=LEASE_MS)
    bench.join(worker)
    bench.push(b"bad")
    await bench.rest()
    await bench.submitted(GroupConfigured(TOPIC, GROUP, 1, None, None))

    def fill_the_disk(_value):
        bench.store.error = StorageFull("no room")

    bench.dispatchers.leases.give_back(TOPIC, GROUP, worker.leases, Callback(fill_the_disk))
    await until(lambda: bench.store.error is not None)
    attempts = bench.store.attempts
    await until(lambda: bench.store.attempts > attempts + 2)
    bench.store.error = None
    letters = dead_letter_topic(TOPIC, GROUP)
    await until(lambda: bench.store.topic(letters) is not None)
    await bench.rest()
    assert bench.store.topic(letters).count == 1


async def test_what_a_limit_of_the_topic_takes_from_a_group_is_counted(bench):
    bench.dispatchers.topics.configure(TopicConfigured(TOPIC, max_messages=3), Told())
    worker = Worker("w", 0)
    bench.join(worker)
    bench.push(*numbered(10))
    await bench.rest()
    worker.capacity = 10
    bench.dispatch()
    await bench.rest()
    assert worker.payloads == [b"7", b"8", b"9"]
    assert bench.parts.counters.drops[DropReason.RETENTION] == 7
