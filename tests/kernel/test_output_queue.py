"""The compiled output queue writes and counts what the Python form does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted
from tests.kernel.output_world import output_world

from penstock.kernel import output_queue as compiled
from penstock.net import output_queue as net

(python,) = interpreted("penstock.net.output_queue")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("live"), st.integers(1, 3), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("headed"), st.binary(max_size=3), st.binary(min_size=2, max_size=20)),
        st.tuples(st.just("stale"), st.binary(min_size=1, max_size=8)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("take")),
        st.tuples(st.just("drop"), st.integers(0, 3)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("buffered"), st.integers(0, 50)),
        st.tuples(st.just("close")),
    ),
    max_size=30,
)


class Transport:
    def __init__(self):
        self.written = b""
        self.writes = 0
        self.buffered = 0

    def write(self, data):
        self.written += data
        self.writes += 1

    def writelines(self, pieces):
        self.write(b"".join(pieces))

    def get_write_buffer_size(self):
        return self.buffered


def history(form, steps):
    """What became of the steps, as anybody could see it."""

    class Queue(form.OutputQueue):
        def flush_bounded(self):
            transport.written += b"?"

        def renew_live(self):
            pieces, counts = self.live_pieces()
            pieces = [piece.replace(b"a", b"") for piece in pieces]
            self.replace_live(pieces, counts, sum(map(len, pieces)))

    world, transport = output_world(), Transport()
    queue = Queue(world, transport)
    for name, *values in steps:
        _step(queue, transport, name, values)
        yield (
            transport.written,
            transport.writes,
            len(world.due),
            list(world.held),
            queue.live_pieces(),
            b"".join(queue._out),
            (queue._live_bytes, queue._out_bytes, queue.counted),
            (world.counters.bytes_out_total, world.counters.messages_out_total[0]),
        )


def _step(queue, transport, name, values):
    match name:
        case "send":
            queue.send(*values)
        case "live":
            queue.send_live(*values)
        case "headed":
            queue.send_headed(1, *values, 1, len(values[1]) - 1)
        case "stale":
            queue._is_live_stale = True
            queue.send_live(1, *values)
        case "flush":
            queue.flush()
        case "take":
            queue.take_live()
        case "drop":
            pieces, counts = (column[values[0] :] for column in queue.live_pieces())
            queue.replace_live(pieces, counts, sum(map(len, pieces)))
        case "pause":
            queue._is_paused = values[0]
        case "buffered":
            transport.buffered = values[0]
        case "close":
            queue._is_closed = True


def test_a_compiled_broker_uses_it():
    assert net.OutputQueue is compiled.OutputQueue


@given(steps)
def test_both_forms_write_and_count_the_same(steps):
    assert list(history(compiled, steps)) == list(history(python, steps))


@pytest.mark.parametrize("method", ["send", "send_live"])
def test_only_bytes_are_taken(method):
    queue = compiled.OutputQueue(output_world(), Transport())
    arguments = (1, bytearray(b"x")) if method == "send_live" else (bytearray(b"x"),)
    with pytest.raises(TypeError):
        getattr(queue, method)(*arguments)
