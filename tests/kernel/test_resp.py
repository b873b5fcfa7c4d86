"""The compiled reader of RESP does what the Python form does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted
from tests.kernel.output_world import output_world

from penstock.kernel import output_queue as compiled_queue
from penstock.store.batch import Batch
from penstock.wire.resp import events as compiled_events
from penstock.wire.resp import server as compiled_server
from penstock.wire.violation import Violation

(python_queue,) = interpreted("penstock.net.output_queue")
python_events, _, python_server = interpreted(
    "penstock.wire.resp.events", "penstock.wire.resp.columns", "penstock.wire.resp.server"
)

NAMES = [b"PUBLISH", b"publish", b"SPUBLISH", b"XADD", b"xadd", b"PuBLISH", b"PING"]
CHANNELS = [b"a", b"b", b"a/b", b"", b"\r\n", b"%d", b"\xff", b"long" * 100, b"longer" * 60]

names = st.sampled_from(NAMES)
channels = st.sampled_from(CHANNELS) | st.integers(0, 5_000).map(lambda number: b"%d" % number)
payloads = st.binary(max_size=12) | st.sampled_from([b"\r\n", b"$1\r\na\r\n", bytes(2_000)])
publishes = st.lists(st.tuples(channels, payloads), min_size=1, max_size=60)
limits = st.sampled_from(
    [
        {},
        {"bulk_bytes_max": 100, "inline_bytes_max": 60, "command_bytes_max": 110},
        {"arguments_max": 3, "bulk_bytes_max": 20},
    ]
)


def packed(*args):
    return b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%b\r\n" % (len(arg), arg) for arg in args)


commands = st.builds(lambda name, args: packed(name, *args), names, st.lists(channels, max_size=5))
rows = st.builds(
    lambda name, found: b"".join(packed(name, *row) for row in found), names, publishes
)
many = st.builds(  # more arguments than columns have
    lambda name, count: packed(name, *[b"%d" % number for number in range(count)]),
    st.sampled_from([b"XACK", b"XADD"]),
    st.integers(60, 130),
)
wrong = st.sampled_from(
    (
        b"*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$01\r\na\r\n$0\r\n\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$+1\r\na\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$-1\r\n",
        b"*03\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$2\r\na\r\n$1\r\nb\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$1\r\na\n\r$1\r\nb\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$9999999999999999999999\r\n",
        b"*3\r\n$7\r\nPUBLISH\r\n$123456789012345678901234567890123456",
        b"*70\r\n$4\r\nXADD\r\n" + b"$1\r\na\r\n" * 69,
        b"*0\r\n",
        b"*-1\r\n",
        b"*1\r\n$7\r\nPUBLISH\r\n",
        b"PUBLISH a b\r\n",
        b"*",
        b"$",
        b"\r\n",
    )
)
streams = st.lists(commands | rows | many | wrong | st.binary(max_size=4), max_size=8).map(b"".join)


@st.composite
def chunks(draw):
    stream = draw(streams)
    places = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


def alone(events):
    """Single commands, and what was wrong."""
    found = []
    for event in events:
        if isinstance(event, Violation):
            found.append((event.reason, event.error, event.detail))
        elif hasattr(event, "columns"):
            found += [command.args for command in event.commands()]
        else:
            found += [event.args, *([*event.args[:-1], last] for last in event.more)]
    return found


def fed(server, pieces, sizes, *, is_trusted):
    machine = server.RespServerMachine(**sizes)
    machine.is_trusted = is_trusted
    found = [event for piece in (*pieces, b"") for event in machine.receive(piece)]
    return alone(found), machine.closed, bool(machine.pending_bytes)


@given(chunks(), limits, st.booleans())
def test_both_forms_read_the_same_however_it_is_cut(pieces, sizes, is_trusted):
    read = fed(compiled_server, pieces, sizes, is_trusted=is_trusted)
    assert read == fed(python_server, pieces, sizes, is_trusted=is_trusted)


def both(found):
    """The same commands in both forms."""
    stream = b"".join(packed(b"PUBLISH", *row) for row in found)
    (compiled,) = compiled_server.RespServerMachine().receive(stream)
    rests = [packed(b"", *row)[len(b"*3\r\n$0\r\n\r\n") : -2] for row in found]
    columns = list(map(list, zip(*found, strict=True)))
    return compiled, python_events.RespColumns(b"PUBLISH", columns, rests)


def same(compiled, python):
    assert compiled.name == python.name
    assert compiled.count == python.count
    assert compiled.arguments == python.arguments
    assert compiled.columns == (python.columns if python.count else [[], []])
    assert compiled.rests == python.rests
    assert compiled.distinct == python.distinct


@given(publishes, st.integers(0, 70), st.integers(0, 70) | st.none())
def test_some_of_the_commands_are_the_same_in_both_forms(found, start, stop):
    compiled, python = both(found)
    same(compiled, python)
    same(compiled.cut(start, stop), python.cut(start, stop))
    some = set(python.distinct[::2])
    same(compiled.of(some), python.of(some))
    assert compiled.count_before(some) == python.count_before(some)
    assert alone([compiled]) == alone([python])


@given(publishes)
def test_pushes_answers_and_captured_messages_are_the_same_in_both_forms(found):
    compiled, python = both(found)
    assert compiled.pushes(b"head") == python.pushes(b"head")
    each = {name: b":%d\r\n" % len(name) for name in python.distinct}
    assert compiled.answers(each) == python.answers(each)
    for topics in (None, {name: b"to/" + name for name in python.distinct}):
        journals = Batch(), Batch()
        compiled.append_to(journals[0], topics, 7)
        python.append_to(journals[1], topics, 7)
        assert list(journals[0].topics) == list(journals[1].topics)
        for topic in journals[1].topics:
            assert journals[0].group(topic).payloads == journals[1].group(topic).payloads
        assert journals[0].payloads == journals[1].payloads == [payload for _, payload in found]
        assert journals[0].payload_bytes == journals[1].payload_bytes


@given(publishes, st.lists(st.sets(st.integers(0, 3)), min_size=1), st.booleans())
def test_every_subscriber_is_sent_the_same_in_both_forms(found, chosen, to_all):
    sent = []
    for event, form in zip(both(found), (compiled_queue, python_queue), strict=True):
        outboxes = [form.OutputQueue(output_world(), None) for _ in range(4)]
        pairs = [(outbox, b"head%d" % (place % 3)) for place, outbox in enumerate(outboxes)]
        ways = [[pairs[place] for place in sorted(places)] for places in chosen]
        if to_all:
            event.send_all(ways[0])
        else:
            event.send_each([ways[n % len(ways)] for n in range(len(event.distinct))])
        columns = [outbox.live_pieces() for outbox in outboxes]
        sent.append([(b"".join(pieces), sum(counts)) for pieces, counts in columns])
    assert sent[0] == sent[1]


def test_a_repeated_name_is_one_object():
    stream = packed(b"PUBLISH", b"one name", b"1")
    first, second = (compiled_server.RespServerMachine().receive(stream)[0] for _ in range(2))
    assert first.distinct[0] is second.distinct[0]
    assert isinstance(first, compiled_events.RespColumns)


class ReadsByArgument(compiled_server.RespServerMachine):
    def _read_arguments(self, data, position):
        raise AssertionError("an argument was read in Python")


@pytest.mark.parametrize("count", [1, 64, 65, 1_000])
def test_a_whole_command_is_read_in_one_pass_however_many_arguments_it_has(count):
    ids = [b"%d-0" % number for number in range(count)]
    machine = ReadsByArgument()
    machine.is_trusted = True
    (found,) = machine.receive(packed(b"XACK", b"stream", b"group", *ids))
    assert found.args == [b"XACK", b"stream", b"group", *ids]


class CountsReadBytes(compiled_server.RespServerMachine):
    read = 0

    def _scan(self, data, following, events):
        self.read += len(data) - following
        return super()._scan(data, following, events)


@pytest.mark.parametrize("more", [20, 90])
def test_a_large_command_that_trickles_in_is_read_a_few_times(more):
    """Only what is small is held as a whole, and read again for every byte of a length."""
    command = packed(b"XADD", b"s", b"*", b"f", bytes(1 << 20), *[b"name"] * more)
    machine = CountsReadBytes()
    edge = (1 << 20) + 60
    assert machine.receive(command[:edge]) == []
    found = [event for byte in command[edge:] for event in machine.receive(bytes([byte]))]
    assert len(alone(found)) == 1
    assert machine.read <= 3 * len(command)
