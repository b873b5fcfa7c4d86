"""What runs when, who may do what, and how a connection of the RESP door ends."""

import asyncio
from itertools import count

import pytest
import pytest_asyncio
from tests.benches.resp_bench import Client, command, settle

from penstock.core.live import Live
from penstock.doors.resp import pattern_budget
from penstock.doors.resp.access import OPEN
from penstock.doors.resp.calls import OK, Spec
from penstock.doors.resp.connection import COMMANDS
from penstock.obs.reasons import DisconnectReason, DropReason
from penstock.testing import AsyncBroker

PASSWORD = "a-password-of-some-length"


@pytest_asyncio.fixture
async def broker():
    async with AsyncBroker(sys={"interval_s": 0}) as own:
        yield own


@pytest_asyncio.fixture
async def locked():
    async with AsyncBroker(resp={"password": PASSWORD}) as own:
        yield own


@pytest.fixture
def waiting(monkeypatch):
    """Two commands that the test answers: LATER waits, ADD is pipelined."""
    calls = []
    monkeypatch.setitem(COMMANDS, b"LATER", Spec(calls.append, -1, OPEN))
    monkeypatch.setitem(COMMANDS, b"ADD", Spec(calls.append, 2, OPEN, is_pipelined=True))
    return calls


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


# ── order ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.asyncio
async def test_what_is_behind_a_waiting_command_waits_and_nothing_more_is_read(broker, waiting):
    client = Client(broker)
    client.send_all(b"LATER", b"ECHO 1", b"PUBLISH t x")
    await turns()
    assert len(waiting) == 1
    assert client.replies == []
    assert not client.transport.is_reading
    waiting[0].reply(OK)
    await turns()
    assert client.replies == [b"OK", b"1", 0]
    assert client.transport.is_reading


@pytest.mark.asyncio
async def test_a_client_that_only_waits_is_still_read_so_that_its_end_is_seen(broker, waiting):
    client, ended = Client(broker), []
    client.send(b"LATER")
    waiting[0].connection.on_close(lambda: ended.append(1))
    assert client.transport.is_reading
    client.send(b"ECHO", b"1")
    assert not client.transport.is_reading
    assert not waiting[0].closed
    client.connection.close(DisconnectReason.CONNECTION_LOST)
    assert waiting[0].closed
    assert ended == [1]


@pytest.mark.asyncio
async def test_whoever_took_its_wish_back_is_not_told_of_the_end(broker, waiting):
    client, ended = Client(broker), []
    client.connection.on_close(ended.append)
    client.connection.off_close(ended.append)
    client.connection.close(DisconnectReason.CONNECTION_LOST)
    assert ended == []


@pytest.mark.asyncio
async def test_pipelined_commands_run_unanswered_and_come_as_runs(broker, waiting):
    client = Client(broker)
    client.send_all(b"ADD 1", b"ADD 2", b"add 3", b"ADD 4")
    assert [call.tails for call in waiting] == [[b"1", b"2"], [b"3"], [b"4"]]
    waiting[2].reply(b":4\r\n")
    waiting[1].fail("ERR no")
    await turns()
    assert client.replies == []
    waiting[0].fail("ERR none")
    await turns()
    assert client.replies == [*[("error", "ERR none")] * 2, ("error", "ERR no"), 4]


@pytest.mark.asyncio
async def test_a_command_sees_what_was_written_before_it(broker, waiting):
    client = Client(broker)
    client.send_all(b"ADD 1", b"LATER 1", b"LATER 2", b"ADD 2")
    assert len(waiting) == 1
    waiting[0].reply(b":1\r\n")
    await turns()
    assert [call.args for call in waiting[1:]] == [[b"LATER", b"1"]]
    waiting[1].reply(OK)
    await turns()
    assert [call.args for call in waiting[2:]] == [[b"LATER", b"2"]]
    waiting[2].reply(OK)
    await turns()
    assert [call.args for call in waiting[3:]] == [[b"ADD", b"2"]]


@pytest.mark.asyncio
async def test_a_handler_that_fails_ends_its_connection_and_no_other(broker, monkeypatch):
    def bug(_call):
        raise ZeroDivisionError

    monkeypatch.setitem(COMMANDS, b"BUG", Spec(bug, 1, OPEN))
    client, other = Client(broker), Client(broker)
    client.send(b"BUG")
    other.send(b"PING")
    await turns()
    assert client.connection.reason is DisconnectReason.INTERNAL_ERROR
    assert other.replies == [b"PONG"]


@pytest.mark.asyncio
async def test_a_violation_is_answered_behind_what_came_before_it(broker, waiting):
    client = Client(broker)
    client.connection.data_received(command(b"LATER") + b"*1\r\n+\r\n")
    assert client.connection.reason is None
    waiting[0].reply(OK)
    await turns()
    assert client.replies == [b"OK", ("error", "ERR Protocol error: expected '$', got '+'")]
    assert client.connection.reason is DisconnectReason.MALFORMED_PACKET


# ── subscriptions ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.asyncio
async def test_one_subscription_one_message_each_in_its_form(broker):
    client, other = Client(broker), Client(broker)
    client.send_all(b"SUBSCRIBE a/b a/#", b"PSUBSCRIBE a* ?/b", b"PING")
    await settle(broker, client)
    other.send(b"PUBLISH", b"a/b", b"x")
    await settle(broker, client, other)
    assert other.replies == [4]
    assert client.payloads() == [b"x", b"x"]
    patterns = [reply[1:] for reply in client.replies if reply[0] == b"pmessage"]
    assert patterns == [[b"a*", b"a/b", b"x"], [b"?/b", b"a/b", b"x"]]


@pytest.mark.asyncio
async def test_the_end_of_a_subscription_is_confirmed_behind_its_last_message(broker):
    client = Client(broker)
    client.send_all(b"SUBSCRIBE #", b"PSUBSCRIBE *")
    parts = broker.server.parts
    parts.connections.flusher.hold()
    parts.fanout.forward(parts.admission.route(b"t").targets, Live.of(b"t", [b"1"]))
    client.send_all(b"UNSUBSCRIBE #", b"PUNSUBSCRIBE *")
    await settle(broker, client)
    assert client.replies[2:] == [
        [b"message", b"t", b"1"],
        [b"pmessage", b"*", b"t", b"1"],
        [b"unsubscribe", b"#", 1],
        [b"punsubscribe", b"*", 0],
    ]


@pytest.mark.asyncio
async def test_a_connection_that_ended_is_in_no_route(broker):
    client = Client(broker)
    client.send_all(b"SUBSCRIBE a b/#", b"PSUBSCRIBE c*")
    routes = broker.server.parts.broker.routes
    assert (routes.subscription_count, routes.pattern_count) == (2, 1)
    assert broker.server.counters.clients_connected == 1
    client.connection.close(DisconnectReason.CONNECTION_LOST)
    assert (routes.subscription_count, routes.pattern_count) == (0, 0)
    assert broker.server.counters.clients_connected == 0


@pytest.mark.asyncio
async def test_the_number_of_subscriptions_is_bounded():
    async with AsyncBroker(limits={"subscriptions_max": 3}) as broker:
        client = Client(broker)
        client.send_all(b"SUBSCRIBE a b", b"PSUBSCRIBE p", b"SUBSCRIBE a", b"SUBSCRIBE c")
        client.send_all(b"PSUBSCRIBE q", b"PSUBSCRIBE p")
        await turns()
        refused = ("error", "ERR too many subscriptions: at most 3")
        counts = [reply if isinstance(reply, tuple) else reply[2] for reply in client.replies]
        assert counts == [1, 2, 3, 3, refused, refused, 3]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ((b"SUBSCRIBE", b"ok", b""), "invalid channel '': empty"),
        ((b"SUBSCRIBE", b"a" * 1_025), f"invalid channel '{'a' * 63}…': longer than 1024 bytes"),
        ((b"PSUBSCRIBE", b"*" * 1_025), "invalid pattern: longer than 1024 bytes"),
        ((b"PUBLISH", b"", b"x"), "topic_invalid: topic : empty"),
    ],
)
async def test_what_may_not_be_a_topic_is_refused_and_the_connection_stays(broker, request_, error):
    client = Client(broker)
    client.send(*request_)
    client.send(b"PING")
    await turns()
    assert client.replies == [("error", f"ERR {error}"), b"PONG"]


@pytest.mark.asyncio
async def test_topics_of_the_broker_itself_are_closed_though_their_routes_are_cached(broker):
    """The broker resolves them to publish; being cached must not mean being checked."""
    client = Client(broker)
    broker.server.parts.broker.routes.resolve(b"$SYS/broker/uptime")
    client.send(b"PUBLISH", b"$SYS/broker/uptime", b"forged")
    await turns()
    assert client.replies == [
        ("error", "ERR topic_reserved: topic $SYS/broker/uptime is reserved for the broker")
    ]


@pytest.mark.asyncio
async def test_many_names_are_taken_in_slices_and_confirmed_in_order(broker):
    client = Client(broker)
    names = [b"p%d*" % number for number in range(300)]
    client.send(b"PSUBSCRIBE", *names)
    assert client.connection.subscriptions.count == 128
    await turns()
    client.connection.outbox.flush()
    assert client.replies == [
        [b"psubscribe", name, number] for number, name in enumerate(names, start=1)
    ]


@pytest.mark.asyncio
async def test_the_patterns_of_all_clients_together_are_bounded(broker, monkeypatch):
    monkeypatch.setattr(pattern_budget, "PATTERN_COST_MAX", 6)
    first, second = Client(broker), Client(broker)
    first.send_all(b"PSUBSCRIBE a* b*")
    second.send_all(
        b"PSUBSCRIBE *c?*", b"PSUBSCRIBE *d?*", b"PUNSUBSCRIBE *c?*", b"PSUBSCRIBE *d?*"
    )
    await turns()
    assert [reply[0] for reply in second.replies] == [
        b"psubscribe",
        "error",
        b"punsubscribe",
        b"psubscribe",
    ]
    second.connection.close(DisconnectReason.CONNECTION_LOST)
    assert broker.server.parts.broker.routes.pattern_cost == 2


@pytest.mark.asyncio
async def test_one_client_leaves_room_for_the_patterns_of_others(broker, monkeypatch):
    monkeypatch.setattr(pattern_budget, "PATTERN_COST_MAX", 8)
    monkeypatch.setattr(pattern_budget, "SMALL_COST", 1)
    greedy, modest = Client(broker), Client(broker)
    greedy.send_all(b"PSUBSCRIBE a* b* c* d*", b"PSUBSCRIBE e*")
    modest.send_all(b"PSUBSCRIBE f* g*")
    await turns()
    assert [reply[0] for reply in greedy.replies] == [b"psubscribe"] * 4 + ["error"]
    assert [reply[0] for reply in modest.replies] == [b"psubscribe"] * 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "words", [[b"PUBSUB", b"CHANNELS"], [b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN"]]
)
async def test_a_pattern_longer_than_any_topic_is_refused_unread(broker, words):
    client = Client(broker)
    client.send(*words, b"?" * 1_000_000)
    assert client.replies == [("error", "ERR invalid pattern: longer than 1024 bytes")]


@pytest.mark.asyncio
async def test_a_slow_subscriber_loses_the_oldest_live_messages_counted():
    async with AsyncBroker(limits={"outbound_bytes_max": "64KiB"}) as broker:
        client, parts = Client(broker), broker.server.parts
        client.send(b"SUBSCRIBE", b"#")
        client.connection.outbox.flush()
        client.connection.pause_writing()
        for number in range(10):
            payload = b"%d" % number * 10_000
            parts.fanout.forward(parts.admission.route(b"t").targets, Live.of(b"t", [payload]))
            client.connection.outbox.flush()
        client.connection.resume_writing()
        got = [payload[:1] for payload in client.payloads()]
        assert got == [b"%d" % number for number in range(10 - len(got), 10)]
        assert 0 < len(got) < 10
        assert parts.counters.drops[DropReason.SLOW_READER] == 10 - len(got)


# ── a client among others ─────────────────────────────────────────────────────────────────────


@pytest.mark.asyncio
async def test_many_commands_in_one_chunk_leave_others_their_turn(broker, monkeypatch):
    parts, client, other = broker.server.parts, Client(broker), Client(broker)
    steps, now = count(), parts.monotonic()
    monkeypatch.setattr(parts.connections, "monotonic", lambda: now + next(steps) / 1000)
    client.send_all(*[b"ECHO %d" % number for number in range(50)], b"PUBLISH t x")
    assert not client.transport.is_reading
    client.connection.outbox.flush()
    assert 0 < len(client.replies) < 10
    asyncio.get_running_loop().call_soon(other.send, b"PING")
    await turns(2)
    assert len(client.replies) < 20
    await turns(50)
    other.connection.outbox.flush()
    assert other.replies == [b"PONG"]
    assert client.replies == [*[b"%d" % number for number in range(50)], 0]
    assert client.transport.is_reading


@pytest.mark.asyncio
async def test_pipelined_commands_behind_a_turn_do_not_wait_for_answers(
    broker, waiting, monkeypatch
):
    parts, steps = broker.server.parts, count()
    now = parts.monotonic()
    monkeypatch.setattr(parts.connections, "monotonic", lambda: now + next(steps) / 100)
    client = Client(broker)
    client.send_all(b"ADD 1", b"add 2", b"ADD 3")
    await turns(5)
    assert [call.tails for call in waiting] == [[b"1"], [b"2"], [b"3"]]


@pytest_asyncio.fixture
async def narrow():
    async with AsyncBroker(limits={"outbound_bytes_max": "64KiB"}) as own:
        yield own


@pytest.mark.asyncio
async def test_more_is_answered_when_the_client_has_read_what_was(narrow):
    client = Client(narrow)
    client.connection.pause_writing()
    client.send_all(*[b"ECHO " + b"%d" % number * 20_000 for number in range(9)])
    client.connection.outbox.flush()
    await turns()
    assert client.replies == []
    assert not client.transport.is_reading
    client.connection.resume_writing()
    assert 0 < len(client.replies) < 9
    await turns(10)
    client.connection.outbox.flush()
    assert [reply[:1] for reply in client.replies] == [b"%d" % number for number in range(9)]
    assert client.connection.reason is None
    assert client.transport.is_reading


@pytest.mark.asyncio
async def test_one_answer_is_never_too_large(narrow):
    client = Client(narrow)
    client.connection.pause_writing()
    client.send_all(b"ECHO " + b"a" * 30_000, b"ECHO " + b"b" * 60_000)
    client.connection.outbox.flush()
    assert client.connection.reason is None
    client.connection.resume_writing()
    assert [len(reply) for reply in client.replies] == [30_000, 60_000]


@pytest.mark.asyncio
async def test_who_reads_nothing_and_asks_for_more_is_closed(narrow):
    client, reader = Client(narrow), Client(narrow)
    for each in (client, reader):
        each.connection.pause_writing()
        each.send_all(*[b"ECHO " + b"a" * 20_000] * 9)
    for number in range(7):
        client.transport.buffered = 100_000
        reader.transport.buffered = 100_000 - number
        narrow.clock.advance(10)
    assert client.connection.reason is DisconnectReason.SLOW_READER
    assert reader.connection.reason is None


# ── the password, and time ────────────────────────────────────────────────────────────────────


@pytest.mark.asyncio
async def test_before_the_password_little_is_allowed(locked):
    client = Client(locked)
    client.send_all(b"PING", b"PUBLISH a b", b"HELLO 3", b"NONSENSE", b"AUTH wrong-word", b"RESET")
    await turns()
    noauth = ("error", "NOAUTH Authentication required.")
    wrong = "WRONGPASS invalid username-password pair or user is disabled."
    assert client.replies[:2] == [noauth, noauth]
    assert client.replies[2][1].startswith("NOAUTH HELLO must be called")
    assert client.replies[3][1].startswith("ERR unknown command")
    assert client.replies[4:] == [("error", wrong), b"RESET"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "words", [f"AUTH {PASSWORD}", f"AUTH default {PASSWORD}", f"HELLO 2 AUTH default {PASSWORD}"]
)
async def test_with_the_password_everything_is_until_reset(locked, words):
    client = Client(locked)
    client.send_all(words.encode(), b"PUBLISH a b", b"RESET", b"PING")
    await turns()
    assert client.replies[1:] == [0, b"RESET", ("error", "NOAUTH Authentication required.")]


@pytest.mark.asyncio
@pytest.mark.parametrize("words", [b"AUTH wrong", b"AUTH other " + PASSWORD.encode()])
async def test_wrong_words_are_logged_without_being_repeated(locked, words, monkeypatch):
    lines = []
    complain = locked.server.parts.connections.throttled_log
    monkeypatch.setattr(complain, "info", lambda *event, **values: lines.append((event, values)))
    client = Client(locked)
    client.send_all(words)
    assert lines == [(("authentication_failed",), {"protocol": "resp", "peer": "unknown"})]


@pytest.mark.asyncio
async def test_a_large_command_right_behind_the_password_is_judged_by_the_larger_limit(locked):
    client = Client(locked)
    large = command(b"ECHO", b"x" * 20_000)
    client.connection.data_received(command(b"AUTH", PASSWORD.encode()) + large)
    await turns()
    client.connection.outbox.flush()
    assert client.replies == [b"OK", b"x" * 20_000]


@pytest.mark.asyncio
async def test_a_stranger_may_not_send_much(locked):
    client = Client(locked)
    client.send(b"ECHO", b"x" * 20_000)
    assert client.connection.reason is DisconnectReason.PACKET_TOO_LARGE


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [b"", b"*1\r\n$4\r\nPI"])
async def test_who_has_not_spoken_in_time_is_closed(broker, said):
    client = Client(broker)
    client.connection.data_received(said)
    broker.clock.advance(9)
    assert client.connection.reason is None
    broker.clock.advance(2)
    assert client.connection.reason is DisconnectReason.CONNECT_TIMEOUT


@pytest.mark.asyncio
async def test_who_has_spoken_may_be_silent_for_days(broker):
    client = Client(broker)
    client.send(b"PING")
    for _ in range(3):
        broker.clock.advance(24 * 3600)
    assert client.connection.reason is None


@pytest.mark.asyncio
async def test_who_spoke_but_does_not_know_the_password_is_closed_in_time(locked):
    client = Client(locked)
    client.send(b"PING")
    locked.clock.advance(11)
    assert client.connection.reason is DisconnectReason.CONNECT_TIMEOUT


@pytest.mark.asyncio
@pytest.mark.parametrize("said", [b"PING", b"RESET"])
async def test_who_does_not_know_the_password_gets_no_more_time_for_talking(locked, said):
    client = Client(locked)
    for _ in range(4):
        client.send_all(said)
        locked.clock.advance(3)
    assert client.connection.reason is DisconnectReason.CONNECT_TIMEOUT


@pytest.mark.asyncio
async def test_who_forgets_the_password_by_reset_has_time_to_say_it_again(locked):
    client = Client(locked)
    client.send(b"AUTH", PASSWORD.encode())
    locked.clock.advance(24 * 3600)
    client.send(b"RESET")
    locked.clock.advance(9)
    assert client.connection.reason is None
    locked.clock.advance(31)
    assert client.connection.reason is DisconnectReason.CONNECT_TIMEOUT


@pytest.mark.asyncio
async def test_subscribed_clients_may_go_on_giving_commands_where_history_is_replayed():
    async with AsyncBroker(sys={"interval_s": 0}, resp={"replay": True}) as broker:
        client = Client(broker)
        client.send_all(b"SUBSCRIBE mine", b"PUBLISH mine x")
        await settle(broker, client)
        assert client.replies == [[b"subscribe", b"mine", 1], 1, [b"message", b"mine", b"x"]]


@pytest.mark.asyncio
async def test_topics_that_demand_signatures_refuse_publishes_counted_and_the_connection_stays(
    broker,
):
    client, listener = Client(broker), Client(broker)
    listener.send(b"SUBSCRIBE", b"#")
    client.send_all(b"PUBLISH secure/a x", b"PUBLISH secure/a y", b"PING")
    await settle(broker, client, listener)
    words = "ERR Topic 'secure/a' requires signed publish (CMD_SIGNED_PUBLISH)"
    assert client.replies == [("error", words), ("error", words), b"PONG"]
    assert listener.payloads() == []
    assert broker.server.counters.drops[DropReason.SIGNATURE_REFUSED] == 2
