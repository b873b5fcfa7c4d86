"""The machine: commands and runs, faults in Redis's words, limits, pieces."""

import pytest

from penstock.obs.reasons import DisconnectReason
from penstock.wire.resp import RespColumns, RespCommand, RespServerMachine
from penstock.wire.resp.server import (
    ARGUMENTS_MAX,
    BULK_BYTES_MAX,
    COMMAND_BYTES_MAX,
    INLINE_BYTES_MAX,
    STRANGER_ARGUMENTS_MAX,
    STRANGER_BYTES_MAX,
)
from tests.wire.resp.commands import byte_by_byte, error_of, fed, packed, stranger, taken_apart

PING = packed(b"PING")

# ── Commands and runs ─────────────────────────────────────────────────────────────────────────


def test_a_command_is_its_arguments():
    assert RespServerMachine().receive(packed(b"SET", b"", b"a\r\nb")) == [
        RespCommand([b"SET", b"", b"a\r\nb"], [])
    ]


def test_commands_alike_but_for_the_last_argument_are_one_event():
    payloads = [b"1", b"2", b"3", b"22", b"33", b"", b"", b"", b"x" * 2_000, b"$1\r\n", b"y"]
    stream = b"".join(packed(b"PUSH", b"s", b"*", b"f", payload) for payload in payloads)
    assert RespServerMachine().receive(stream) == [
        RespCommand([b"PUSH", b"s", b"*", b"f", payloads[0]], payloads[1:])
    ]


def test_a_run_ends_at_another_topic_another_name_and_another_count():
    commands = [
        (b"PUSH", b"a", b"1"),
        (b"PUSH", b"b", b"1"),
        (b"push", b"b", b"1"),
        (b"PUSH", b"b"),
        (b"PUSH", b"b", b"1", b"2"),
    ]
    stream = b"".join(packed(*command) * 2 for command in commands)
    assert RespServerMachine().receive(stream) == [
        RespCommand(list(command), [command[-1]]) for command in commands
    ]


def test_commands_of_one_name_are_one_event_whatever_their_arguments():
    rows = [(b"%d" % (number % 3), bytes(number)) for number in range(400)]
    stream = b"".join(packed(b"PUBLISH", *row) for row in rows)
    events = RespServerMachine().receive(stream)
    columns = events[-1]
    assert taken_apart(events[:-1]) == [[b"PUBLISH", *rows[0]]] * (len(events) - 1)
    rows = rows[len(events) - 1 :]  # the Python form reads the first for itself
    assert columns.name == b"PUBLISH"
    assert columns.count == len(rows)
    assert list(zip(*columns.columns, strict=True)) == rows
    rests = [b"$1\r\n%b\r\n$%d\r\n%b" % (name, len(data), data) for name, data in rows]
    assert columns.rests == rests
    assert columns.cut(7, 9).commands() == [
        RespCommand([b"PUBLISH", *row], []) for row in rows[7:9]
    ]


@pytest.mark.parametrize(
    "odd",
    [
        packed(b"PING"),
        packed(b"PUBLISH", b"a\r\nb", b""),
        packed(b"PUBLISH", b"a", b"x\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n$1\r\nb"),
        packed(b"PUBLISH", b"a", bytes(5_000)),
        packed(b"publish", b"a", b""),
        b"PUBLISH a 1\r\n",
    ],
)
def test_what_does_not_fit_into_columns_ends_them_and_others_follow(odd):
    some = b"".join(packed(b"PUBLISH", b"%d" % number, b"x") for number in range(30))
    events = RespServerMachine(bulk_bytes_max=5_000).receive(some + odd + some)
    expected = fed(stranger(), [some, odd, some])
    assert taken_apart(events) == expected
    in_columns = [len(event.rests) for event in events if isinstance(event, RespColumns)]
    assert sum(in_columns) >= 57


@pytest.mark.parametrize("wrong", [b"$2\r\nabc", b"$+3\r\nabc", b"$03\r\nabc", b"$4\r\nabc"])
def test_a_fault_in_columns_is_that_of_the_command_alone(wrong):
    some = b"".join(packed(b"PUBLISH", b"%d" % number, b"x") for number in range(30))
    fault = b"*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n" + wrong + b"\r\n"
    *events, violation = RespServerMachine().receive(some + fault + some)
    assert taken_apart(events) == fed(RespServerMachine(), [some])
    assert violation.error == error_of(fault + some)


def test_commands_without_arguments_are_no_run():
    assert RespServerMachine().receive(PING * 3) == [RespCommand([b"PING"], [])] * 3


def test_a_run_stops_at_the_edge_of_the_chunk_and_goes_on_in_the_next():
    frame = packed(b"PUSH", b"t", b"abc")
    command = [b"PUSH", b"t", b"abc"]
    for excess in range(len(frame)):
        machine = RespServerMachine()
        cut = 7 * len(frame) + excess
        assert machine.receive((frame * 10)[:cut]) == [RespCommand(command, [b"abc"] * 6)]
        following = machine.receive((frame * 10)[cut:])
        assert fed(RespServerMachine(), [frame * 3]) == [
            [*event.args[:-1], last]
            for event in following
            for last in (event.args[-1], *event.more)
        ]
        assert machine.pending_bytes == 0


@pytest.mark.parametrize("length", [b"4", b"2", b"03", b"x", b"3" * 40])
def test_a_fault_in_a_run_is_that_of_the_command_alone_and_comes_behind_the_others(length):
    frame = packed(b"PUSH", b"t", b"abc")
    wrong = frame.replace(b"$3", b"$" + length) + frame
    command, violation = RespServerMachine().receive(frame * 4 + wrong)
    assert command == RespCommand([b"PUSH", b"t", b"abc"], [b"abc"] * 3)
    assert violation.error == error_of(wrong)


@pytest.mark.parametrize("count", [b"0", b"-1", b"-5"])
def test_an_array_of_nothing_is_skipped(count):
    assert RespServerMachine().receive(b"*%b\r\n" % count + PING) == [RespCommand([b"PING"], [])]


def test_lines_and_arrays_may_follow_one_another():
    stream = b'ping\r\n\r\n  \r\nECHO "a b"\n' + PING + b"PING\n"
    arguments = [[b"ping"], [b"ECHO", b"a b"], [b"PING"], [b"PING"]]
    assert RespServerMachine().receive(stream) == [RespCommand(args, []) for args in arguments]


# ── Faults: the answers of redis-server 7.0.15, save those marked ─────────────────────────────

COUNT = b"invalid multibulk length"
LENGTH = b"invalid bulk length"
FAULTS = [
    (b"*abc\r\n", COUNT),
    (b"*\r\n", COUNT),
    (b"*1x\r\n", COUNT),
    (b"* 1\r\n", COUNT),
    (b"*+1\r\n", COUNT),
    (b"*01\r\n", COUNT),
    (b"*-0\r\n", COUNT),
    (b"*1_0\r\n", COUNT),
    (b"*1\n$4\r\nPING\r\n", COUNT),
    (b"*1\rX$4\r\nPING\r\n", COUNT),  # Redis skips the byte behind CR
    (b"*2147483648\r\n", COUNT),
    (b"*99999999999999999999\r\n", COUNT),
    (b"*" + b"1" * 70_000, b"too big mbulk count string"),
    (b"*1\r\n:4\r\n", b"expected '$', got ':'"),
    (b"*1\r\n*1\r\n", b"expected '$', got '*'"),
    (b"*1\r\n\r\n", b"expected '$', got ' '"),
    (b"*1\r\n\xff\r\n", b"expected '$', got '\xff'"),
    (b"*1\r\n$-1\r\n", LENGTH),
    (b"*1\r\n$x\r\n", LENGTH),
    (b"*1\r\n$\r\n", LENGTH),
    (b"*1\r\n$04\r\n", LENGTH),
    (b"*1\r\n$+4\r\n", LENGTH),
    (b"*1\r\n$-0\r\n", LENGTH),
    (b"*1\r\n$4 \r\n", LENGTH),
    (b"*1\r\n$4\nPING\r\n", LENGTH),
    (b"*1\r\n$536870913\r\n", LENGTH),
    (b"*1\r\n$999999999999999999999999\r\n", LENGTH),
    (b"*1\r\n$" + b"1" * 70_000, b"too big bulk count string"),
    (b"*1\r\n$4\r\nPINGXX", b"a bulk string is longer than announced"),  # Redis skips two bytes
    (b"a" * 70_000, b"too big inline request"),
    (b'ECHO "a\r\n', b"unbalanced quotes in request"),
]


@pytest.mark.parametrize(("data", "error"), FAULTS, ids=[repr(data[:20]) for data, _ in FAULTS])
def test_a_fault_is_answered_in_the_words_of_redis_however_it_is_cut(data, error):
    line = b"-ERR Protocol error: " + error
    assert error_of(data) == line
    (violation,) = fed(RespServerMachine(), byte_by_byte(data))
    assert violation.error == line


def test_after_a_violation_nothing_is_looked_at_and_nothing_is_kept():
    machine = RespServerMachine()
    command, violation = machine.receive(PING + b"*1\r\n:1\r\n" + PING)
    assert command == RespCommand([b"PING"], [])
    assert violation.reason is DisconnectReason.MALFORMED_PACKET
    assert machine.closed
    assert machine.receive(PING) == []
    assert machine.pending_bytes == 0


# ── Limits ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"*%d\r\n", b"invalid multibulk length"),
        (b"*1\r\n$%d\r\n", b"invalid bulk length"),
    ],
)
def test_an_announced_number_passes_at_the_limit_and_is_refused_one_beyond(data, error):
    limit = ARGUMENTS_MAX if data.startswith(b"*%") else BULK_BYTES_MAX
    machine = RespServerMachine()
    assert machine.receive(data % limit) == []
    assert not machine.closed
    (violation,) = RespServerMachine().receive(data % (limit + 1))
    assert violation.error == b"-ERR Protocol error: " + error
    assert violation.reason is DisconnectReason.PACKET_TOO_LARGE
    assert str(limit) in violation.detail


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"*%d\r\n", b"unauthenticated multibulk length"),
        (b"*1\r\n$%d\r\n", b"unauthenticated bulk length"),
    ],
)
def test_the_limits_are_tighter_for_a_stranger(data, error):
    limit = STRANGER_ARGUMENTS_MAX if data.startswith(b"*%") else STRANGER_BYTES_MAX
    machine = stranger()
    assert machine.receive(data % limit) == []
    assert not machine.closed
    assert error_of(data % (limit + 1), stranger()) == b"-ERR Protocol error: " + error


@pytest.mark.parametrize(
    ("client", "limit"), [(RespServerMachine, INLINE_BYTES_MAX), (stranger, STRANGER_BYTES_MAX)]
)
def test_a_line_passes_at_its_limit_and_is_refused_one_beyond(client, limit):
    machine = client()
    assert machine.receive(b"a" * limit + b"\n") == [RespCommand([b"a" * limit], [])]
    assert machine.receive(b"a" * limit) == []
    assert error_of(b"a", machine) == b"-ERR Protocol error: too big inline request"


def test_a_line_has_no_more_arguments_than_an_array_may_have():
    assert fed(stranger(), [b"a " * 10 + b"\n"]) == [[b"a"] * 10]
    error = error_of(b"a " * 11 + b"\n", stranger())
    assert error == b"-ERR Protocol error: unauthenticated multibulk length"
    assert error_of(b"a b c\n", RespServerMachine(arguments_max=2)).endswith(COUNT)


def test_the_arguments_of_a_command_are_limited_together():
    limits = {"bulk_bytes_max": 10, "command_bytes_max": 15}
    machine = RespServerMachine(**limits)
    fits = packed(b"x" * 10, b"y" * 5)
    assert fed(machine, [fits, fits]) == [[b"x" * 10, b"y" * 5]] * 2
    assert error_of(b"*2\r\n$10\r\nxxxxxxxxxx\r\n$6\r\n", machine).endswith(LENGTH)
    assert BULK_BYTES_MAX < COMMAND_BYTES_MAX


@pytest.mark.parametrize(
    "limits", [{"bulk_bytes_max": 5}, {"bulk_bytes_max": 99, "command_bytes_max": 6}]
)
def test_the_limits_hold_in_a_run(limits):
    stream = packed(b"P", b"1234") + packed(b"P", b"12345") + packed(b"P", b"123456")
    command, violation = RespServerMachine(**limits).receive(stream)
    assert command == RespCommand([b"P", b"1234"], [b"12345"])
    assert violation.error.endswith(LENGTH)


def test_what_follows_authentication_in_a_chunk_is_judged_when_that_has_been_looked_at():
    large = packed(*[b"x"] * 11)
    for chunk, rest in ((large, b""), (large[:-5], large[-5:])):
        machine = stranger()
        assert machine.receive(packed(b"AUTH", b"secret") + chunk) == [
            RespCommand([b"AUTH", b"secret"], [])
        ]
        machine.is_trusted = True
        assert fed(machine, [b"", rest]) == [[b"x"] * 11]


def test_what_is_too_large_for_a_stranger_is_refused_if_the_stranger_remains_one():
    machine = stranger()
    large = packed(b"SET", b"k", bytes(STRANGER_BYTES_MAX + 1))
    assert machine.receive(packed(b"AUTH", b"wrong") + large) == [
        RespCommand([b"AUTH", b"wrong"], [])
    ]
    assert error_of(b"", machine).endswith(b"unauthenticated bulk length")


# ── Pieces ────────────────────────────────────────────────────────────────────────────────────


def test_bytes_may_be_cut_anywhere():
    stream = b'PING "a b"\r\n' + packed(b"PUBLISH", b"t", b"\r\n$1") * 2 + b"*0\r\n" + PING
    expected = [[b"PING", b"a b"], *[[b"PUBLISH", b"t", b"\r\n$1"]] * 2, [b"PING"]]
    assert fed(RespServerMachine(), byte_by_byte(stream)) == expected
    for cut in range(len(stream)):
        assert fed(RespServerMachine(), [stream[:cut], stream[cut:]]) == expected


def test_what_is_held_grows_with_what_came_and_not_with_what_was_announced():
    machine = RespServerMachine()
    machine.receive(b"*10000\r\n$16777216\r\n")
    assert machine.pending_bytes == len(b"$16777216\r\n")
    machine.receive(bytes(1_000))
    assert machine.pending_bytes == len(b"$16777216\r\n") + 1_000


class CountsScans(RespServerMachine):
    """Counts how often, and how many, received bytes were looked at."""

    scans = scanned = 0

    def _scan(self, data, following, events):
        self.scans += 1
        self.scanned += len(data) - following
        return super()._scan(data, following, events)


@pytest.mark.parametrize("head", [b"*1\r\n$1048576\r\n", b""])
def test_a_large_argument_in_small_pieces_is_looked_at_a_few_times(head):
    """An array or a line: looking at, or copying, all of it for every piece would be quadratic."""
    content = b"x" * (1 << 20)
    data = head + content + b"\r\n"
    machine = CountsScans(inline_bytes_max=1 << 21)
    pieces = [data[at : at + 1_024] for at in range(0, len(data), 1_024)]
    assert fed(machine, pieces) == [[content]]
    assert machine.scans <= 4
    assert machine.scanned <= 2 * len(data) + 4_096


def test_many_arguments_that_trickle_in_are_each_looked_at_a_few_times():
    arguments = [b"%04d" % number for number in range(ARGUMENTS_MAX)]
    data = packed(*arguments)
    machine = CountsScans()
    assert fed(machine, byte_by_byte(data)) == [arguments]
    assert machine.scanned <= 3 * len(data)
