"""Users of the Redis protocol: logging in, and what each command needs."""

import re
import shutil
import subprocess
from hashlib import sha256

import pytest
import redis

from penstock.doors.resp.calls import flat
from penstock.doors.resp.commands import COMMANDS
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.rows import Quotas, Role, User
from tests.access import LOGIN_REQUIRED, PRESENTED, SECRET, add_with
from tests.conformance.wire_client import wait_until
from tests.conformance_resp.wire import Peer, ask

TOPIC_ACTIONS = ("publish", "subscribe", "read", "work", "manage")
ACTIONS = (*TOPIC_ACTIONS, "monitor", "admin")

KEYS = b"-NOPERM this user has no permissions to access one of the keys used as arguments"
CHANNELS = KEYS.replace(b"keys", b"channels")
NOAUTH = b"-NOAUTH Authentication required."
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled."

SEEN = "read work manage"
# a command, the actions of which one allows it, and what a refusal calls its argument
MATRIX = [
    ("PUBLISH own/1 x", "publish", "channels"),
    ("SPUBLISH own/1 x", "publish", "channels"),
    ("XADD own/1 * a b", "publish", "keys"),
    ("PUSH jobs x", "publish", "keys"),
    ("SUBSCRIBE own/1", "subscribe", "channels"),
    ("SUBSCRIBE own/#", "subscribe", "channels"),
    ("SSUBSCRIBE own/1", "subscribe", "channels"),
    ("PSUBSCRIBE own/*", "subscribe", "channels"),
    ("XRANGE own/1 - +", "read", "keys"),
    ("XREVRANGE own/1 + -", "read", "keys"),
    ("XREAD COUNT 1 STREAMS own/1 0", "read", "keys"),
    ("XREAD BLOCK 1 COUNT 1 STREAMS own/1 own/2 0 0", "read", "keys"),
    ("XINFO STREAM own/1", "read", "keys"),
    ("XINFO STREAM own/1 FULL", "read", "keys"),
    ("XREADGROUP GROUP g c COUNT 1 STREAMS own/1 >", "work", "keys"),
    ("XREADGROUP GROUP g c NOACK STREAMS own/1 0", "work", "keys"),
    ("XACK own/1 g 1-1", "work", "keys"),
    ("XCLAIM own/1 g c 0 1-1", "work", "keys"),
    ("XAUTOCLAIM own/1 g c 0 0", "work", "keys"),
    ("PULL jobs", "work", "keys"),
    ("PULL own/1 GROUP g", "work", "keys"),
    ("XGROUP CREATE own/1 new 0 MKSTREAM", "work manage", "keys"),
    ("XGROUP CREATECONSUMER own/1 g c", "work manage", "keys"),
    ("XGROUP DELCONSUMER own/1 g none", "manage", "keys"),
    ("XGROUP SETID own/1 g 0", "manage", "keys"),
    ("XGROUP DESTROY own/1 none", "manage", "keys"),
    ("XTRIM own/1 MAXLEN 1000", "manage", "keys"),
    ("XDEL own/1 1-1", "manage", "keys"),
    ("XSETID own/1 1-1", "manage", "keys"),
    ("DEL own/none", "manage", "keys"),
    ("UNLINK own/none", "manage", "keys"),
    ("EXPIRE own/none 10", "manage", "keys"),
    ("PEXPIRE own/none 10", "manage", "keys"),
    ("PERSIST own/none", "manage", "keys"),
    ("XRANGE $dlq/own/1/g - +", "manage", "keys"),
    ("EXISTS own/1", SEEN, "keys"),
    ("TYPE own/1", SEEN, "keys"),
    ("TTL own/1", SEEN, "keys"),
    ("PTTL own/1", SEEN, "keys"),
    ("XLEN own/1", SEEN, "keys"),
    ("XPENDING own/1 g", SEEN, "keys"),
    ("XINFO GROUPS own/1", SEEN, "keys"),
    ("XINFO CONSUMERS own/1 g", SEEN, "keys"),
    ("FLUSHALL", "admin", "command"),
    ("FLUSHDB", "admin", "command"),
    ("INFO", "monitor", "command"),
    ("CLIENT LIST", "monitor", "command"),
    ("CLIENT KILL ID 999", "admin", "command"),
    ("CLIENT UNBLOCK 999", "admin", "command"),
    ("MONITOR", "admin", "command"),
    ("ACL LIST", "admin", "command"),
    ("ACL USERS", "admin", "command"),
    ("ACL GETUSER x", "admin", "command"),
    ("ACL DRYRUN x PING", "admin", "command"),
    ("ACL LOG", "admin", "command"),
    ("ACL SETUSER x", "admin", "command"),
    ("ACL DELUSER x", "admin", "command"),
    ("ACL SAVE", "admin", "command"),
    ("ACL LOAD", "admin", "command"),
]
OPEN = [
    "acl",
    "acl|cat",
    "acl|genpass",
    "acl|help",
    "acl|whoami",
    "ack",
    "auth",
    "client",
    "client|getname",
    "client|id",
    "client|info",
    "client|no-evict",
    "client|reply",
    "client|setinfo",
    "client|setname",
    "command",
    "command|count",
    "command|docs",
    "command|info",
    "command|list",
    "discard",
    "echo",
    "exec",
    "hello",
    "multi",
    "ping",
    "pubsub",
    "pubsub|channels",
    "pubsub|numpat",
    "pubsub|numsub",
    "pubsub|shardchannels",
    "pubsub|shardnumsub",
    "punsubscribe",
    "quit",
    "readonly",
    "readwrite",
    "reset",
    "select",
    "sunsubscribe",
    "time",
    "unsubscribe",
    "unwatch",
    "watch",
    "xgroup",
    "xgroup|help",
    "xinfo",
    "xinfo|help",
]


@pytest.fixture(scope="module")
def broker():
    """A broker with a user for each action, allowed on own/# and q:jobs and no other topic."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        roles = [
            Role(action, (f"allow {action} own/#", f"allow {action} q:jobs"))
            for action in TOPIC_ACTIONS
        ]
        roles += [Role(f"all-{action}", (f"allow {action}",)) for action in ("monitor", "admin")]
        own.change_access(*map(put, roles))
        own.add_user("root", SECRET, roles=["admin"])
        own.add_user("client", SECRET, rules=["allow publish,subscribe,read,work own/#"])
        for action in ACTIONS:
            own.add_user(
                action, SECRET, roles=[action if action in TOPIC_ACTIONS else f"all-{action}"]
            )
        assert b"NOPERM" not in ask(own.port, *_as("root"), *_FILL)
        yield own


@pytest.fixture(autouse=True)
def _forgiven(broker):
    """Wrong logins of earlier tests are long ago: they would slow down those of the next one."""
    broker.clock.advance(3_600)


_FILL = ("XADD own/1 * a b", "XADD other/1 * a b", "XGROUP CREATE own/1 g 0", "PUSH jobs x")


def _as(user):
    return (f"AUTH {user} {SECRET}",)


@pytest.fixture
def connect(broker):
    """Connect with redis-py: ``connect("ann")``, or with RESP 3."""
    opened = []

    def open_client(user, **options):
        client = redis.Redis(
            port=broker.port, username=user, password=SECRET, decode_responses=True, **options
        )
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.close()


def refusal(answer):
    """The error that a command got, without what came before and after."""
    found = re.search(rb"-(?:NOPERM|NOAUTH|WRONGPASS)[^\r]*", answer)
    return found[0] if found else b""


# ── what a command needs


def test_every_command_declares_what_it_needs():
    """A new command fails here until somebody has decided who may run it."""
    named = {
        re.sub(r"^(xgroup|xinfo|client|acl) ", r"\1|", c.lower()).split()[0] for c, *_ in MATRIX
    }
    table = {name.decode(): spec for name, spec in flat(COMMANDS)}
    assert named | set(OPEN) == set(table)
    assert not named & set(OPEN)
    for name, spec in table.items():
        assert bool(spec.access.actions) is (name in named), name


@pytest.mark.parametrize("user", ACTIONS)
def test_a_command_needs_its_action_on_its_topics(broker, user):
    for command, actions, used in MATRIX:
        found = refusal(ask(broker.port, *_as(user), command))
        name = "|".join(
            command.lower().split()[: 2 if "ACL" in command or "CLIENT" in command else 1]
        )
        expected = {
            "keys": KEYS,
            "channels": CHANNELS,
            "command": f"-NOPERM this user has no permissions to run the '{name}' command".encode(),
        }[used]
        assert found == (b"" if user in actions.split() else expected), (user, command)


def test_an_action_on_one_topic_is_none_on_another(broker):
    for command, _actions, used in MATRIX:
        if used != "command":
            elsewhere = command.replace("own/", "other/").replace("jobs", "other-jobs")
            found = refusal(ask(broker.port, *_as("client"), elsewhere))
            assert found == (KEYS if used == "keys" else CHANNELS), command


@pytest.mark.parametrize(
    "command",
    [
        "XREAD COUNT 1 STREAMS own/1 other/1 0 0",
        "XREAD STREAMS other/1 0",
        "XREAD BLOCK 10 STREAMS own/1 STREAMS 0 0",
        "XREADGROUP GROUP STREAMS own/1 STREAMS other/1 >",
        "XREADGROUP GROUP g c NOACK NOACK COUNT 1 STREAMS own/1 other/1 > >",
        "XADD other/1 NOMKSTREAM * a own/1",
        "XADD own/1 MAXLEN 0 * a b",
        "XADD own/1 NOMKSTREAM MINID ~ 1-1 * a b",
        "PULL other GROUP own/1",
        "PULL own/1",
        "DEL own/1 other/1",
        "EXISTS own/1 other/1",
        "PUSH own/1 x",
    ],
)
def test_options_that_shift_keys_do_not_shift_what_is_judged(broker, command):
    """XADD that trims removes what others wrote; PUSH and PULL mean the topic q:NAME."""
    assert refusal(ask(broker.port, *_as("client"), command)) == KEYS
    queued = ask(broker.port, *_as("client"), "MULTI", command, "EXEC")
    assert refusal(queued) == KEYS
    assert b"-EXECABORT" in queued


def test_names_are_judged_as_the_topics_they_stand_for(broker):
    """The channel ``own/#`` is a filter, the key ``own/#`` the topic ``own/%23``."""
    assert refusal(ask(broker.port, *_as("client"), "XADD own/# * a b")) == b""
    assert refusal(ask(broker.port, *_as("client"), "XADD # * a b")) == KEYS
    assert refusal(ask(broker.port, *_as("client"), "SUBSCRIBE other/#")) == CHANNELS


def test_scripts_are_refused_whoever_asks(broker):
    assert b"-ERR unknown command 'EVAL'" in ask(broker.port, *_as("root"), "EVAL x 1 own/1")


# ── logging in


@pytest.mark.parametrize("command", ["PING", "PUBLISH own/1 x", "ACL WHOAMI", "COMMAND", "MULTI"])
def test_a_stranger_is_told_to_log_in(broker, command):
    assert ask(broker.port, command) == NOAUTH + b"\r\n+OK\r\n"


@pytest.mark.parametrize(
    "wrong",
    ["AUTH client wrong", f"AUTH nobody {SECRET}", f"AUTH {SECRET}", "HELLO 3 AUTH client x"],
)
def test_nothing_runs_behind_a_wrong_login(broker, wrong):
    answer = ask(broker.port, wrong, "XADD own/behind * a b", "PING")
    assert answer == b"\r\n".join([WRONGPASS, NOAUTH, NOAUTH, b"+OK\r\n"])
    assert b"\r\n:0\r\n" in ask(broker.port, *_as("root"), "EXISTS own/behind")


def test_a_wrong_login_leaves_a_client_who_it_was_as_in_redis(broker):
    answer = ask(broker.port, *_as("client"), "AUTH root wrong", "ACL WHOAMI")
    assert answer == b"+OK\r\n" + WRONGPASS + b"\r\n$6\r\nclient\r\n+OK\r\n"


def test_the_third_wrong_login_ends_the_connection(broker):
    with Peer(broker.port) as peer:
        peer.send(*["AUTH client wrong"] * 3, *_as("client"), "XADD own/third * a b")
        assert peer.read_end() == (WRONGPASS + b"\r\n") * 3
    assert b"\r\n:0\r\n" in ask(broker.port, *_as("root"), "EXISTS own/third")


def test_logging_in_as_another_user_changes_rights_at_once(broker):
    commands = ("XLEN other/1", *_as("client"), "XLEN other/1", "XLEN own/1", "ACL WHOAMI")
    answer = ask(broker.port, *_as("root"), *commands)
    assert answer.startswith(b"+OK\r\n:1\r\n+OK\r\n" + KEYS + b"\r\n:")
    assert answer.endswith(b"$6\r\nclient\r\n+OK\r\n")


def test_hello_logs_in(broker):
    answer = ask(broker.port, f"HELLO 3 AUTH client {SECRET} SETNAME me", "ACL WHOAMI")
    assert answer.startswith(b"%7\r\n")
    assert answer.endswith(b"$6\r\nclient\r\n+OK\r\n")


def test_reset_makes_a_stranger_again(broker):
    answer = ask(broker.port, *_as("client"), "RESET", "PING")
    assert answer == b"+OK\r\n+RESET\r\n" + NOAUTH + b"\r\n+OK\r\n"


def test_a_stranger_who_goes_on_asking_is_closed(broker):
    with Peer(broker.port) as peer:
        peer.send(*["PING"] * 1_000)
        answer = peer.read_end()
    assert len(answer) < 8 * 1024
    assert answer.count(NOAUTH) >= 100


def test_the_password_of_the_configuration_is_that_of_the_user_default():
    with Broker(resp={"password": SECRET}) as own:
        answer = ask(own.port, f"AUTH {SECRET}", "ACL WHOAMI", "XTRIM a MAXLEN 0", "INFO")
        assert b"$7\r\ndefault\r\n:0\r\n" in answer
        own.add_user("ann", "another-secret-of-ann", roles=["admin"])
        answer = ask(own.port, f"AUTH {SECRET}", "ACL WHOAMI", "XTRIM a MAXLEN 0", "XLEN a")
        assert answer == b"+OK\r\n$7\r\ndefault\r\n" + KEYS + b"\r\n:0\r\n+OK\r\n"
        assert ask(own.port, "PING") == NOAUTH + b"\r\n+OK\r\n"
        own.add_user("default", "", rules=["allow read b"])
        answer = ask(own.port, f"AUTH default {SECRET}", "XLEN a", "XLEN b")
        assert answer == b"+OK\r\n" + KEYS + b"\r\n:0\r\n+OK\r\n"


@pytest.mark.parametrize("kind", PRESENTED)
def test_whatever_the_credentials_commands_behind_them_wait(broker, kind):
    """A chosen password is checked in a thread, and nothing runs before that."""
    secret = add_with(broker, kind, "allow publish,read own/#")
    commands = ("XADD own/kinds * a b", "XLEN other/1", "ACL WHOAMI")
    answer = ask(broker.port, f"AUTH {kind} {secret}", *commands)
    assert re.fullmatch(
        rb"\+OK\r\n\$\d+\r\n\d+-\d+\r\n"
        + re.escape(KEYS)
        + rb"\r\n\$\d+\r\n%b\r\n\+OK\r\n" % kind.encode(),
        answer,
    ), answer
    assert ask(broker.port, f"AUTH {kind} {secret}x", "PING").startswith(WRONGPASS)


# ── transactions, and what waits


def test_a_transaction_is_judged_when_it_is_queued(broker):
    answer = ask(broker.port, *_as("client"), "MULTI", "XLEN own/1", "XLEN other/1", "EXEC")
    assert answer.startswith(b"+OK\r\n+OK\r\n+QUEUED\r\n" + KEYS + b"\r\n-EXECABORT")


def test_a_transaction_is_judged_again_when_it_runs(broker):
    """Here by logging in as somebody else in the middle of it."""
    commands = (
        "MULTI",
        "XLEN other/1",
        *_as("client"),
        "XLEN other/1",
        "PUBLISH other/1 x",
        "EXEC",
    )
    answer = ask(broker.port, *_as("root"), *commands)
    assert answer.endswith(b"*4\r\n:1\r\n+OK\r\n" + KEYS + b"\r\n" + CHANNELS + b"\r\n+OK\r\n")


def test_jobs_are_settled_by_who_may_work(connect):
    client = connect("root", single_connection_client=True)
    client.execute_command("PUSH", "shared", "x")
    [[number, _job]] = client.execute_command("PULL", "shared", "WITHACK")
    client.execute_command("AUTH", "client", SECRET)
    with pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command("ACK", number)
    client.execute_command("AUTH", "root", SECRET)
    assert client.execute_command("ACK", number) == "OK"
    assert client.xpending("q:shared", "workers")["pending"] == 0


@pytest.mark.parametrize(
    "command",
    ["XREAD BLOCK 0 STREAMS own/wait $", "XREADGROUP GROUP g c BLOCK 0 STREAMS own/wait >",
     "PULL wait BLOCK 0"],
)  # fmt: skip
def test_a_command_that_waits_is_judged_again_when_rights_change(broker, command):
    ask(broker.port, *_as("root"), "XGROUP CREATE own/wait g 0 MKSTREAM")
    broker.add_user("waiter", SECRET, rules=["allow read,work own/#", "allow work q:wait"])
    with Peer(broker.port) as peer:
        peer.send(*_as("waiter"), command)
        assert peer.read(b"+OK\r\n") == b"+OK\r\n"
        wait_until(lambda: broker.call(_waiting, broker))
        broker.add_user("waiter", SECRET, rules=["allow publish own/#"])
        assert peer.read(KEYS + b"\r\n") == KEYS + b"\r\n"


def test_a_command_that_waited_before_there_were_users_is_judged_by_the_first_rules():
    with Broker() as own, Peer(own.port) as peer:
        peer.send("XREAD BLOCK 0 STREAMS other/wait $")
        wait_until(lambda: own.call(_waiting, own))
        own.change_access(put(Role("local", ("allow read own/#",))), put(User("ann", ("admin",))))
        assert peer.read(KEYS + b"\r\n") == KEYS + b"\r\n"


def _waiting(broker):
    clients = broker.server.parts.connections.clients
    return [one for one in clients if getattr(one, "unblock", None) is not None]


def test_a_transaction_is_judged_again_when_rights_changed_meanwhile(broker, connect):
    broker.add_user("queuer", SECRET, rules=["allow publish,read own/#"])
    client = connect("queuer", single_connection_client=True)
    client.execute_command("MULTI")
    assert client.execute_command("XADD", "own/exec", "*", "a", "b") == "QUEUED"
    assert client.execute_command("XLEN", "own/exec") == "QUEUED"
    broker.add_user("queuer", SECRET, rules=["allow read own/#"])
    added, length = client.execute_command("EXEC")
    assert isinstance(added, redis.exceptions.NoPermissionError)
    assert length == 0


def test_connections_of_a_user_that_is_disabled_end(broker):
    broker.add_user("gone", SECRET, rules=["allow read own/#"])
    with Peer(broker.port) as peer:
        peer.send(*_as("gone"))
        assert peer.read(b"+OK\r\n") == b"+OK\r\n"
        broker.change_access(put(User("gone", ("gone",), is_disabled=True)))
        assert peer.read_end() == b""


# ── subscriptions


def test_a_pattern_shows_no_more_channels_than_the_user_may_see(connect):
    root = connect("root")
    listener = connect("root").pubsub()
    listener.subscribe("own/listed", "other/listed")
    for _ in range(2):
        assert listener.get_message(timeout=10)["type"] == "subscribe"
    assert set(root.pubsub_channels("*/listed")) == {"own/listed", "other/listed"}
    client = connect("client")
    assert client.pubsub_channels("*/listed") == ["own/listed"]
    assert client.pubsub_numsub("own/listed", "other/listed") == [
        ("own/listed", 1),
        ("other/listed", 0),
    ]
    listener.close()


def _messages(listener, until):
    """Channels of the messages that a listener gets, up to the last one."""
    found = []
    while until not in found:
        message = listener.get_message(timeout=10)
        assert message is not None, found
        if message["type"].endswith("message"):
            found.append(message["channel"])
    return found


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("wanted", ["#", "*"])
def test_what_is_denied_is_left_out_of_filters_and_patterns(broker, connect, wanted, protocol):
    broker.add_user(
        "narrow", SECRET, rules=["allow subscribe own/#", "deny subscribe own/secret/#"]
    )
    listener = connect("narrow", protocol=protocol).pubsub()
    (listener.subscribe if wanted == "#" else listener.psubscribe)(wanted)
    assert listener.get_message(timeout=10)["type"].endswith("subscribe")
    root = connect("root")
    for channel in ("other/narrow", "own/secret/1", "own/a", "own/end"):
        root.publish(channel, "x")
    assert _messages(listener, "own/end") == ["own/a", "own/end"]
    listener.close()


def test_a_subscription_goes_quiet_when_the_right_ends_and_speaks_again(broker, connect):
    broker.add_user("listener", SECRET, rules=["allow subscribe own/#"])
    listener, root = connect("listener").pubsub(), connect("root")
    listener.subscribe("own/quiet", "own/end")
    for _ in range(2):
        assert listener.get_message(timeout=10)["type"] == "subscribe"
    root.publish("own/quiet", "1")
    broker.add_user("listener", SECRET, rules=["allow subscribe own/end"])
    root.publish("own/quiet", "2")
    root.publish("own/end", "x")
    assert _messages(listener, "own/end") == ["own/quiet", "own/end"]
    broker.add_user("listener", SECRET, rules=["allow subscribe own/#"])
    root.publish("own/quiet", "3")
    assert _messages(listener, "own/quiet") == ["own/quiet"]
    listener.close()


def test_subscriptions_are_those_of_whoever_the_client_has_become(connect):
    """In RESP 3 a client may log in again while it is subscribed."""
    root = connect("root")
    client = connect("root", protocol=3, single_connection_client=True)
    listener = client.pubsub()
    listener.subscribe("other/become", "own/end")
    for _ in range(2):
        assert listener.get_message(timeout=10)["type"] == "subscribe"
    root.publish("other/become", "1")
    listener.execute_command("AUTH", "client", SECRET)
    while listener.parse_response(block=True) != "OK":
        pass
    root.publish("other/become", "2")
    root.publish("own/end", "x")
    assert listener.parse_response(block=True)[:2] == ["message", "own/end"]
    listener.close()


def test_a_user_has_as_many_subscriptions_as_its_quota_allows(broker):
    digest = sha256(SECRET.encode()).digest()
    row = User("few", ("client",), secrets=(digest,), quotas=Quotas(subscriptions=2))
    broker.change_access(put(row))
    refused = b"-ERR quota: user few may have 2 subscriptions on each node\r\n"
    assert refused in ask(broker.port, *_as("few"), "SUBSCRIBE own/1 own/2 own/3")
    answer = ask(broker.port, *_as("few"), "SUBSCRIBE own/1 own/2", "PSUBSCRIBE own/*")
    assert answer.count(b"subscribe\r\n") == 2
    assert refused in answer
    commands = ("SUBSCRIBE own/1 own/2", "UNSUBSCRIBE own/1", "PSUBSCRIBE own/*")
    assert refused not in ask(broker.port, *_as("few"), *commands)


def test_history_is_replayed_to_who_may_read_it():
    with Broker(resp={"replay": True}, auth=LOGIN_REQUIRED) as own:
        own.add_user("root", SECRET, roles=["admin"])
        own.add_user("live", SECRET, rules=["allow subscribe,publish t"])
        ask(own.port, *_as("root"), "PUBLISH t old")
        with Peer(own.port) as peer:
            peer.send(*_as("live"), "SUBSCRIBE t", "PUBLISH t new")
            expected = b"+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nt\r\n:1\r\n"
            assert peer.read(expected) == expected
            message = b"*3\r\n$7\r\nmessage\r\n$1\r\nt\r\n$3\r\nnew\r\n"
            received = peer.read(b":1\r\n" + message)
            assert message in received


# ── ACL


def test_redis_py_reads_users_and_their_rules(connect):
    for protocol in (2, 3):
        root = connect("root", protocol=protocol)
        assert root.acl_whoami() == "root"
        assert "client" in root.acl_users()
        lines = {line.split()[1]: line for line in root.acl_list()}
        assert lines["monitor"] == "user monitor on -@all (+@monitor)"
        assert lines["client"] == (
            "user client on -@all (+@publish +@subscribe +@read +@work ~own/# &own/#)"
        )
        found = root.acl_getuser("client")
        assert found["enabled"]
        assert found["flags"] == ["on"]
        assert found["passwords"] == []
        assert found["categories"] == ["-@all"]
        assert found["roles"] == ["client"]
        assert root.acl_getuser("nobody") is None
        assert root.acl_cat() == list(ACTIONS)
        assert "xadd" in root.acl_cat("publish")
        assert len(root.acl_genpass()) == 64
        assert len(root.acl_genpass(10)) == 3


def test_redis_py_learns_whether_a_command_would_be_allowed(connect):
    root = connect("root")
    assert root.acl_dryrun("client", "XLEN", "own/1") == "OK"
    denied = "This user has no permissions to"
    assert root.acl_dryrun("client", "XLEN", "other/1") == f"{denied} access the 'other/1' key"
    assert root.acl_dryrun("client", "publish", "a", "x") == f"{denied} access the 'a' channel"
    assert root.acl_dryrun("client", "CLIENT", "LIST") == f"{denied} run the 'client|list' command"
    with pytest.raises(redis.ResponseError, match="User 'nobody' not found"):
        root.acl_dryrun("nobody", "PING")
    with pytest.raises(redis.ResponseError, match="Command 'nonsense' not found"):
        root.acl_dryrun("client", "nonsense")


def test_redis_py_reads_what_was_denied(connect):
    for protocol in (2, 3):
        root = connect("root", protocol=protocol)
        assert root.acl_log_reset()
        assert root.acl_log() == []
        with pytest.raises(redis.exceptions.NoPermissionError):
            connect("client").xlen("other/7")
        [entry] = root.acl_log(1)
        assert entry["object"] == "other/7"
        assert entry["username"] == "client"
        assert entry["reason"] == "key"
        assert "client" in str(entry["client-info"])


@pytest.mark.parametrize(
    ("subcommand", "instead"),
    [("SETUSER ann on", "penstock users add"), ("DELUSER ann", "penstock users remove"),
     ("SAVE", "penstock access export"), ("LOAD", "penstock access apply")],
)  # fmt: skip
def test_users_are_changed_by_the_penstock_command(broker, subcommand, instead):
    assert instead.encode() in ask(broker.port, *_as("root"), f"ACL {subcommand}")


def test_client_list_and_kill_know_users(connect):
    client, root = connect("client"), connect("root")
    client.ping()
    listed = {one["user"] for one in root.client_list()}
    assert {"client", "root"} <= listed
    with pytest.raises(redis.ResponseError, match="No such user 'nobody'"):
        root.execute_command("CLIENT", "KILL", "USER", "nobody")
    assert root.execute_command("CLIENT", "KILL", "USER", "client") >= 1


def test_nobody_sees_secrets_in_monitor(broker):
    with Peer(broker.port) as watcher:
        watcher.send(*_as("root"), "MONITOR")
        assert watcher.read(b"+OK\r\n+OK\r\n") == b"+OK\r\n+OK\r\n"
        ask(broker.port, *_as("root"), f"HELLO 2 AUTH root {SECRET}", f"ACL SETUSER x >{SECRET}")
        watcher.send("QUIT")
        shown = watcher.read_end()
    assert b"redacted" in shown
    assert SECRET.encode() not in shown


@pytest.mark.parametrize("how", ["rules", "login", "reset"])
def test_a_monitor_ends_with_the_right_to_be_one(broker, how):
    """It shows what all others do, so it is judged like what waits."""
    broker.add_user("watching", SECRET, roles=["admin"])
    with Peer(broker.port) as watcher:
        watcher.send(*_as("watching"), "MONITOR")
        assert watcher.read(b"+OK\r\n+OK\r\n") == b"+OK\r\n+OK\r\n"
        if how == "rules":
            broker.add_user("watching", SECRET, rules=["allow read own/#"])
        elif how == "login":
            watcher.send(*_as("client"))
        else:
            watcher.send("RESET", *_as("client"))
        watcher.send("ECHO over")
        said = b""
        while b"over\r\n" not in said:
            said += watcher.read(b"?")
        assert ask(broker.port, *_as("root"), "ECHO unseen").count(b"unseen") == 1
        watcher.send("QUIT")
        assert b"unseen" not in watcher.read_end()


@pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")
def test_redis_cli_logs_in_with_the_secret_of_its_environment(broker):
    command = ["redis-cli", "-p", str(broker.port), "--user", "client", "ACL", "WHOAMI"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={"REDISCLI_AUTH": SECRET},
        timeout=30,
    )
    assert done.stdout.strip() == "client"
    done = subprocess.run(
        [*command[:-2], "XLEN", "other/1"], capture_output=True, text=True, check=False,
        env={"REDISCLI_AUTH": SECRET}, timeout=30,
    )  # fmt: skip
    assert KEYS[1:].decode() in done.stdout
