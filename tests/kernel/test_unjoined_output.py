"""Large pieces of output go to the socket from where they are, and arrive whole and in order."""

import socket
from random import Random

import pytest

pytest.importorskip("uvloop")
pytest.importorskip("penstock.kernel.sockets")

from tests.kernel.output_world import output_world
from tests.kernel.transports import Bench, run

from penstock.kernel.output_queue import OutputQueue

KINDS = ["kernel/uvloop", "kernel/asyncio"]
PIECES = [3, 40, 1_500]  # few, many, and more than one call of the system takes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("send_bytes", [4_096, 1 << 20])
def test_all_pieces_arrive_however_much_the_socket_takes_at_once(kind, pieces, send_bytes):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        opened = recorder.transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        random, world = Random(7), output_world()
        queue = OutputQueue(world, recorder.transport)
        expected = b""
        for _ in range(3):  # the second finds that bytes of the first wait
            chunk = random.randbytes(9_000)
            queue.send(chunk[:700])
            expected += chunk[:700]
            for _ in range(pieces):
                start = random.randrange(4_000)
                end = start + random.randrange(4_000)
                queue.send_headed(1, b"head", chunk, start, end)
                expected += b"head" + chunk[start:end]
            queue.flush()
        assert world.counters.bytes_out_total == len(expected)
        assert await bench.read(client, len(expected)) == expected
        assert recorder.transport.get_write_buffer_size() == 0

    run(kind, test)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_sent_to_a_connection_that_is_closing(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        queue = OutputQueue(output_world(), recorder.transport)
        recorder.transport.close()
        for _ in range(4):
            queue.send_headed(1, b"head", bytes(5_000), 0, 5_000)
        queue.flush()
        assert queue.live_pieces() == ([], [])
        assert await bench.read(client, 1) == b""

    run(kind, test)


@pytest.mark.parametrize("kind", KINDS)
def test_reads_of_all_sizes_are_received_intact(kind):
    """After a large read the next one goes straight into its object, be it large or not."""

    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        random, sent = Random(3), b""
        for size in (400_000, 10, 300_000, 300_000, 1, 70_000, 5):
            data = random.randbytes(size)
            sent += data
            await bench.loop.sock_sendall(client, data)
            await bench.until(lambda: len(recorder.received) == len(sent))  # noqa: B023
        assert bytes(recorder.received) == sent

    run(kind, test)
