"""A table of commands: what Redis answers, byte for byte, is what Penstock answers."""

import pytest

SAME: list[tuple[str | bytes, ...]] = [
    # ── the connection ──
    ("PING",),
    ("ping",),
    ("PiNg hello",),
    ("PING ''",),
    ("PING a b",),
    ("ECHO hello",),
    ("ECHO",),
    ("ECHO a b",),
    ("SELECT 0",),
    ("SELECT 99",),
    ("SELECT -1",),
    ("SELECT x",),
    ("SELECT",),
    ("QUIT",),
    ("QUIT now",),
    ("QUIT", "PING"),
    ("RESET",),
    ("RESET now",),
    ("HELLO 3", "RESET", "CLIENT GETNAME"),
    ("CLIENT SETNAME x", "RESET", "CLIENT GETNAME"),
    ("SUBSCRIBE a", "RESET", "PING"),
    # ── HELLO, AUTH ──
    ("HELLO",),
    ("HELLO 2",),
    ("HELLO 3",),
    ("HELLO 3", "HELLO"),
    ("HELLO 3", "HELLO 2"),
    ("HELLO 1",),
    ("HELLO 4",),
    ("HELLO x",),
    ("HELLO -3",),
    ("HELLO 3 SETNAME",),
    ("HELLO 3 SETNAME 'a b'", "CLIENT GETNAME"),
    ("HELLO 3 SETNAME me", "CLIENT GETNAME"),
    ("HELLO 3 setname me", "CLIENT GETNAME"),
    ("HELLO 3 AUTH default any",),
    ("HELLO 3 AUTH other any",),
    ("HELLO 3 AUTH default any SETNAME me", "CLIENT GETNAME"),
    ("HELLO 3 AUTH default",),
    ("HELLO 3 NONSENSE",),
    ("HELLO 3", "CLIENT GETNAME"),
    ("AUTH x",),
    ("AUTH default x",),
    ("AUTH other x",),
    ("AUTH a b c",),
    ("AUTH",),
    # ── CLIENT ──
    ("CLIENT",),
    ("CLIENT NONSENSE",),
    ("CLIENT GETNAME",),
    ("CLIENT GETNAME x",),
    ("CLIENT SETNAME me", "CLIENT GETNAME"),
    ("CLIENT SETNAME me", "CLIENT SETNAME ''", "CLIENT GETNAME"),
    ("CLIENT SETNAME 'a b'",),
    ("CLIENT SETNAME",),
    ("client setname me", "client getname"),
    ("CLIENT LIST NONSENSE",),
    ("CLIENT LIST TYPE NONSENSE",),
    ("CLIENT LIST TYPE replica",),
    ("CLIENT LIST ID x",),
    ("CLIENT LIST ID 9999999999999999",),
    ("CLIENT NO-EVICT ON",),
    ("CLIENT NO-EVICT perhaps",),
    ("CLIENT KILL 127.0.0.1:1",),
    ("CLIENT KILL ID 999999999",),
    ("CLIENT KILL ID 0",),
    ("CLIENT KILL ID x",),
    ("CLIENT KILL TYPE nonsense",),
    ("CLIENT KILL TYPE replica",),
    ("CLIENT KILL USER nobody",),
    ("CLIENT KILL ADDR 127.0.0.1:1 SKIPME no",),
    ("CLIENT KILL ADDR 127.0.0.1:1 SKIPME perhaps",),
    ("CLIENT KILL NONSENSE x",),
    ("CLIENT KILL ID 1 TYPE",),
    ("CLIENT KILL",),
    ("CLIENT REPLY ON",),
    ("CLIENT REPLY OFF", "PING", "CLIENT REPLY ON", "PING"),
    ("CLIENT REPLY SKIP", "PING", "ECHO x"),
    ("CLIENT REPLY SKIP", "PUBLISH nobody a", "PUBLISH nobody b", "PUBLISH nobody c"),
    ("CLIENT REPLY OFF", "NONSENSE", "PUBLISH nobody x", "CLIENT REPLY SKIP", "RESET", "PING"),
    ("CLIENT REPLY perhaps",),
    ("CLIENT REPLY",),
    ("CLIENT UNBLOCK 999999999",),
    ("CLIENT UNBLOCK 999999999 ERROR",),
    ("CLIENT UNBLOCK 1 perhaps",),
    ("CLIENT UNBLOCK x",),
    ("CLIENT UNBLOCK",),
    # ── COMMAND ──
    ("COMMAND NONSENSE",),
    ("COMMAND COUNT x",),
    ("COMMAND INFO nonsense",),
    ("HELLO 3", "COMMAND INFO nonsense"),
    ("COMMAND LIST NONSENSE",),
    ("COMMAND LIST FILTERBY PATTERN publis?",),
    ("COMMAND DOCS nonsense",),
    # ── what is wrong with a command ──
    ("NONSENSE",),
    ("nonsense a b",),
    ("nonsense " + "argument " * 30,),
    ("n" * 200 + " a",),
    ("nonsense " + "a" * 200,),
    ("PUBLISH",),
    ("PUBLISH a",),
    ("publish a b c",),
    ("SUBSCRIBE",),
    ("PSUBSCRIBE",),
    ("PUBSUB",),
    ("PUBSUB NONSENSE",),
    ("PUBSUB CHANNELS a b",),
    ("PUBSUB NUMPAT a",),
    # ── subscribing ──
    ("SUBSCRIBE a",),
    ("SUBSCRIBE a a b",),
    ("SUBSCRIBE a", "SUBSCRIBE b", "SUBSCRIBE a"),
    ("SUBSCRIBE a", "PSUBSCRIBE a*", "SUBSCRIBE b"),
    ("UNSUBSCRIBE",),
    ("UNSUBSCRIBE x",),
    ("PUNSUBSCRIBE",),
    ("PUNSUBSCRIBE x",),
    ("SUBSCRIBE a", "UNSUBSCRIBE"),
    ("SUBSCRIBE a", "UNSUBSCRIBE b", "UNSUBSCRIBE a", "PING"),
    ("SUBSCRIBE a", "PSUBSCRIBE x", "UNSUBSCRIBE", "PUNSUBSCRIBE", "PING"),
    ("PSUBSCRIBE x", "UNSUBSCRIBE", "UNSUBSCRIBE y"),
    ("PSUBSCRIBE x y x",),
    ("PSUBSCRIBE ''",),
    ("HELLO 3", "SUBSCRIBE a b", "PSUBSCRIBE c", "PING", "PING x"),
    ("HELLO 3", "UNSUBSCRIBE", "PUNSUBSCRIBE"),
    ("HELLO 3", "SUBSCRIBE a", "UNSUBSCRIBE a"),
    # ── subscribed in RESP 2, few commands are allowed ──
    ("SUBSCRIBE a", "PING"),
    ("SUBSCRIBE a", "PING x"),
    ("SUBSCRIBE a", "PUBLISH a b"),
    ("SUBSCRIBE a", "echo b"),
    ("SUBSCRIBE a", "HELLO 3"),
    ("SUBSCRIBE a", "CLIENT ID"),
    ("SUBSCRIBE a", "NONSENSE"),
    ("SUBSCRIBE a", "ECHO"),
    ("SUBSCRIBE a", "QUIT"),
    ("PSUBSCRIBE a", "ECHO b"),
    ("SUBSCRIBE a", "UNSUBSCRIBE a", "ECHO b"),
    ("HELLO 3", "SUBSCRIBE a", "ECHO b"),
    # ── shard channels ──
    ("SSUBSCRIBE a b", "SSUBSCRIBE a", "SUNSUBSCRIBE a", "SUNSUBSCRIBE"),
    ("SUNSUBSCRIBE",),
    ("SSUBSCRIBE",),
    ("HELLO 3", "SSUBSCRIBE a", "SUBSCRIBE b", "SSUBSCRIBE c", "PSUBSCRIBE d", "SUNSUBSCRIBE a"),
    ("SPUBLISH nobody x",),
    ("SPUBLISH nobody",),
    ("PUBSUB SHARDNUMSUB nobody here",),
    ("PUBSUB SHARDCHANNELS nobody*",),
    # ── PUBSUB, PUBLISH ──
    ("PUBSUB NUMSUB",),
    ("PUBSUB NUMSUB nobody here",),
    ("PUBSUB CHANNELS nobody*",),
    ("HELLO 3", "SUBSCRIBE mine", "PUBSUB NUMSUB mine other", "PUBSUB CHANNELS mine"),
    ("PUBLISH nobody x",),
    ("PUBLISH nobody/# x",),
    ("SUBSCRIBE socket.io#/# a+b a%23b",),
    ("SUBSCRIBE socket.io#/#", "UNSUBSCRIBE socket.io#/#"),
    (b"*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\n\xff\xfe\r\n",),
    ("HELLO 3", "PSUBSCRIBE user#*", "PUBLISH other#1+ x", "PUBSUB NUMPAT"),
    ("PUBLISH nobody x", "PUBLISH nobody y", "PUBLISH nobody z", "PING"),
    # ── typed by hand ──
    (b"PING\r\n",),
    (b"ping\n",),
    (
        b"PING\r\n",
        b"  ECHO   'a b'  \r\n",
    ),
    (b'ECHO "\\x41\\n"\r\n',),
    (
        b"PING\r\n",
        b"\r\n\r\nPING\r\n",
    ),
    (b"ECHO 'unbalanced\r\n",),
    (b"SUBSCRIBE a b\r\n", b"PING\r\n"),
    (b"*0\r\nPING\r\n",),
    (b"*-1\r\nPING\r\n",),
    # ── not the protocol ──
    (b"*1\r\n+PING\r\n",),
    (b"*x\r\n",),
    (b"*1\r\n$x\r\n",),
    (b"*1\r\n$-1\r\n",),
    (b"*1\r\n:1\r\n",),
]


def named(value):
    """A part of a test's name; text as it is, anything else as Python writes it."""
    return value if isinstance(value, str) else repr(value)


@pytest.mark.parametrize(
    "commands", SAME, ids=lambda commands: " / ".join(map(named, commands))[:60]
)
def test_the_answer_is_that_of_redis(commands, ask_redis, ask_penstock):
    assert ask_penstock(*commands) == ask_redis(*commands)


KEY_COMMANDS = {
    "SET k v": b"not a key-value store: keep values elsewhere",
    "hgetall k": b"not a key-value store: keep values elsewhere",
    "LPUSH jobs a": b"for queues use PUSH and PULL, or XADD and XREADGROUP",
    "BRPOP jobs 0": b"for queues use PUSH and PULL, or XADD and XREADGROUP",
    "EVAL x 0": b"runs no scripts",
    "SCAN 0": b"/topics",
    "CONFIG GET maxmemory": b"penstock config explain",
    "CLUSTER SLOTS": b"turn cluster mode off",
}


@pytest.mark.parametrize("command", KEY_COMMANDS)
def test_a_command_on_keys_is_told_what_penstock_is_and_what_to_use(command, ask_penstock):
    answer = ask_penstock(command, "PING")
    name = command.split()[0].encode()
    assert answer.startswith(b"-ERR unknown command '%b': Penstock is" % name)
    assert KEY_COMMANDS[command] in answer
    assert answer.endswith(b"+PONG\r\n+OK\r\n")  # the connection stays open


DIFFERENT: list[tuple[str, tuple[str | bytes, ...], bytes]] = [
    (
        "there is one database",
        ("SELECT 1",),
        b"-ERR DB index is out of range\r\n",
    ),
    (
        "a channel is a topic, and has rules",
        ("SUBSCRIBE ''",),
        b"-ERR invalid channel '': empty\r\n",
    ),
    (
        "the broker's own topics are closed",
        ("PUBLISH $SYS/x y",),
        b"-ERR topic_reserved: topic $SYS/x is reserved for the broker\r\n",
    ),
    (
        "there are no keys, and whoever expects some is told what there is",
        ("GET k",),
        (
            b"-ERR unknown command 'GET': Penstock is a message broker, not a key-value store: keep"
            b" values elsewhere; to send messages use PUBLISH and SUBSCRIBE, for streams XADD and"
            b" XREADGROUP, for jobs PUSH and PULL\r\n"
        ),
    ),
    (
        "a subcommand that Redis has had since 7.2",
        ("CLIENT SETINFO LIB-NAME x",),
        b"+OK\r\n",
    ),
    (
        "one who publishes to itself has the answer first",
        ("HELLO 3", "SUBSCRIBE self", "PUBLISH self x", "PING"),
        b"",
    ),
]


@pytest.mark.parametrize(
    ("reason", "commands", "answer"), DIFFERENT, ids=lambda value: named(value)[:40]
)
def test_where_the_answer_is_another_there_is_a_reason(
    reason, commands, answer, ask_redis, ask_penstock
):
    ours = ask_penstock(*commands)
    assert ours != ask_redis(*commands), f"no longer different: {reason}"
    assert not answer or ours == answer + b"+OK\r\n"
