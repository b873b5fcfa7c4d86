"""Shared subscriptions without sockets: names, ids, windows, and who leaves when."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.benches.dispatch_bench import TOPIC, Bench, Told, numbered

from penstock.core.delivery import DELIVER_DUP, DELIVER_QOS
from penstock.core.shares import Share, is_shared, parse_share
from penstock.dispatch.groups import Start
from penstock.doors.mqtt import shared_subscriptions as module
from penstock.doors.mqtt.shared_subscriptions import SharedSubscriptions
from penstock.errors import StorageFull
from penstock.obs.reasons import DisconnectReason
from penstock.trust.principal import ANYONE

GROUP = b"g"
NAME = b"$share/g/jobs"


class Recipient:
    """A connection that takes notes."""

    principal = ANYONE
    is_5 = False

    def __init__(self) -> None:
        self.deliveries: list[tuple[bytes, bytes | None, int, int, int]] = []
        self.closed: list[DisconnectReason] = []
        self.reads = True
        self.taken_ids: set[int] = set()

    @property
    def payloads(self) -> list[bytes | None]:
        return [delivery[1] for delivery in self.deliveries]

    @property
    def packet_ids(self) -> list[int]:
        return [delivery[3] for delivery in self.deliveries]

    def deliver_shared(self, deliveries, _marks: object) -> None:
        self.deliveries += deliveries

    def share_room(self) -> int:
        return 1_000 if self.reads else 0

    def is_id_taken(self, packet_id: int) -> bool:
        return packet_id in self.taken_ids

    def close(self, reason: DisconnectReason, _detail: str = "") -> None:
        self.closed.append(reason)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    await made.close()


class Client(Recipient):
    """A connection with its shared subscriptions."""

    def __init__(self, bench: Bench, number: int = 1) -> None:
        super().__init__()
        self.bench = bench
        self.sharing = SharedSubscriptions(bench.parts, self, number)

    async def share(self, name: bytes = NAME, qos: int = 1) -> None:
        share = parse_share(name)
        assert share is not None
        self.sharing.subscribe(name, share, qos, lambda: None)
        await self.bench.rest()


# ── names


@pytest.mark.parametrize(
    ("name", "share"),
    [
        (b"$share/g/t", Share(b"g", b"t")),
        (b"$share/g/t/+/#", Share(b"g/t/+/#", b"t/+/#")),
        (b"$share/g//t", Share(b"g", b"/t")),
        (b"$share/g/$dlq/t/g", Share(b"g", b"$dlq/t/g")),
        (b"$share/" + b"g" * 256 + b"/t", Share(b"g" * 256, b"t")),
        (b"$share/" + b"g" * 257 + b"/t", None),
        (b"$share/", None),
        (b"$share/g", None),
        (b"$share/g/", None),
        (b"$share//t", None),
        (b"$share/+/t", None),
        (b"$share/#", None),
    ],
)
def test_a_shared_subscription_names_a_group_and_a_filter(name, share):
    assert is_shared(name)
    assert parse_share(name) == share


@pytest.mark.parametrize("name", [b"$share", b"$shared/g/t", b"share/g/t", b"/$share/g/t", b"#"])
def test_other_filters_are_no_shared_subscriptions(name):
    assert not is_shared(name)


# ── ids and windows


@pytest.mark.asyncio
async def test_ids_are_of_the_upper_half_and_go_round(bench):
    client = Client(bench)
    await client.share()
    client.sharing._last_id = 65_534
    bench.push(*numbered(3))
    await bench.rest()
    assert client.packet_ids == [65_535, 32_768, 32_769]


@pytest.mark.asyncio
async def test_ids_in_use_here_or_by_the_session_are_passed_over(bench):
    client = Client(bench)
    await client.share()
    bench.push(b"0")
    await bench.rest()
    client.taken_ids = {32_769}
    client.sharing._last_id = 65_535
    bench.push(b"1")
    await bench.rest()
    assert client.packet_ids == [32_768, 32_770]


@pytest.mark.asyncio
async def test_what_there_are_no_ids_for_goes_back_and_comes_later(bench, monkeypatch):
    """Two dispatchers may give at once what was free once."""
    monkeypatch.setattr(module, "LAST_ID", 32_769)
    monkeypatch.setattr(module, "WINDOW", 2)
    client = Client(bench)
    await client.share(b"$share/g/a")
    await client.share(b"$share/g/b")
    bench.push(*numbered(2), topic=b"a")
    bench.push(*numbered(2), topic=b"b")
    await bench.rest()
    assert sorted(client.packet_ids) == [32_768, 32_769]
    for _ in range(2):
        client.sharing.settle([32_768, 32_769])
        await bench.rest()
    assert sorted(client.payloads) == [b"0", b"0", b"1", b"1"]
    assert not any(delivery[2] & DELIVER_DUP for delivery in client.deliveries)


@pytest.mark.asyncio
async def test_a_client_that_does_not_read_is_given_nothing_until_it_does(bench):
    client = Client(bench)
    await client.share()
    client.reads = False
    bench.push(*numbered(2))
    await bench.rest()
    assert client.payloads == []
    client.reads = True
    client.sharing.ask_for_more()
    await bench.rest()
    assert client.payloads == numbered(2)


@pytest.mark.asyncio
async def test_only_members_without_room_are_asked_again(bench, monkeypatch):
    """A client may share thousands of topics, and acknowledge thousands of messages."""
    client = Client(bench)
    await client.share()
    bench.push(b"0")
    await bench.rest()
    dealt: list[bytes] = []
    monkeypatch.setattr(bench.dispatchers, "dispatch", lambda topic, _group: dealt.append(topic))
    client.sharing.settle(client.packet_ids)
    assert dealt == []


@pytest.mark.asyncio
async def test_subscribed_again_the_last_qos_counts(bench):
    client = Client(bench)
    await client.share(qos=1)
    await client.share(qos=0)
    bench.push(b"0")
    await bench.rest()
    assert [delivery[2] & DELIVER_QOS for delivery in client.deliveries] == [0]
    assert not bench.parts.broker.groups.get(TOPIC, GROUP).pending


# ── coming and going


@pytest.mark.asyncio
async def test_who_leaves_before_the_group_is_made_joins_no_more(bench):
    client = Client(bench)
    client.sharing.subscribe(NAME, Share(GROUP, TOPIC), 1, lambda: None)
    client.sharing.unsubscribe(NAME)
    await bench.rest()
    assert bench.dispatchers.workers(TOPIC, GROUP) == 0


@pytest.mark.asyncio
async def test_who_leaves_before_topics_were_found_joins_none(bench):
    bench.push(b"0")
    await bench.rest()
    client = Client(bench)
    client.sharing.subscribe(b"$share/g/#", Share(GROUP, b"#"), 1, lambda: None)
    client.sharing.leave_all()
    await bench.rest()
    assert bench.dispatchers.workers(TOPIC, GROUP) == 0
    assert bench.parts.broker.groups.get(TOPIC, GROUP) is None
    assert not bench.parts.feed.is_wanted


@pytest.mark.asyncio
async def test_to_leave_without_ever_having_worked_costs_no_commit(bench):
    client = Client(bench)
    await client.share()
    attempts = bench.store.attempts
    client.sharing.leave_all()
    await bench.rest()
    assert bench.store.attempts == attempts


@pytest.mark.asyncio
async def test_what_one_leaves_the_next_gets_marked_as_repeated(bench):
    first, second = Client(bench, 1), Client(bench, 2)
    await first.share()
    bench.push(*numbered(3))
    await bench.rest()
    first.sharing.settle(first.packet_ids[:1])
    first.sharing.leave_all()
    await second.share()
    assert second.payloads == numbered(3)[1:]
    assert all(delivery[2] & DELIVER_DUP for delivery in second.deliveries)


@pytest.mark.asyncio
async def test_of_very_many_topics_only_so_many_are_shared(bench, monkeypatch):
    monkeypatch.setattr(module, "MEMBERSHIPS_MAX", 3)
    for number in range(5):
        bench.push(b"0", topic=b"t%d" % number)
    await bench.rest()
    client = Client(bench)
    await client.share(b"$share/g/+")
    bench.push(b"1", topic=b"new")
    await bench.rest()
    assert len(bench.parts.broker.groups.by_topic) == 3


@pytest.mark.asyncio
async def test_a_topic_that_appears_is_shared_from_its_first_message_on(bench):
    client = Client(bench)
    await client.share(b"$share/g/+")
    bench.push(*numbered(2), topic=b"new")
    bench.push(b"no", topic=b"$new")
    await bench.rest()
    assert client.payloads == numbered(2)


@pytest.mark.asyncio
async def test_a_group_that_exists_goes_on_where_it_is(bench):
    bench.push(*numbered(2))
    bench.dispatchers.groups.create(TOPIC, GROUP, Start(), Told())
    await bench.rest()
    client = Client(bench)
    await client.share()
    assert client.payloads == numbered(2)


@pytest.mark.asyncio
async def test_when_the_disk_refuses_the_group_the_connection_ends(bench):
    client = Client(bench)
    bench.store.error = StorageFull("no room")
    client.sharing.subscribe(NAME, Share(GROUP, TOPIC), 1, lambda: None)
    await bench.rest()
    assert client.closed == [DisconnectReason.STORAGE_FULL]
