"""The kernel's transport keeps the contract of asyncio's: the same claims about all of them."""

import asyncio
import contextlib
import gc
import resource
import socket
import struct
import sys
import threading
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("uvloop")
pytest.importorskip("penstock.kernel.sockets")

from tests.kernel.transports import Bench, Recorder, run

from penstock.kernel.sockets import SocketTransport

KINDS = ["kernel/uvloop", "kernel/asyncio", "loop/uvloop", "loop/asyncio"]
KERNEL = ["kernel/uvloop", "kernel/asyncio"]
MIB = 1 << 20
everywhere = pytest.mark.parametrize("kind", KINDS)
in_the_kernel = pytest.mark.parametrize("kind", KERNEL)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def shrink(recorder: Recorder) -> None:
    opened = recorder.transport.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)


@everywhere
def test_what_a_client_sends_is_received_and_what_is_written_arrives(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        client.send(b"ping")
        await bench.until(lambda: recorder.received == b"ping")
        recorder.transport.write(b"po")
        recorder.transport.write(bytearray(b"n"))
        recorder.transport.write(memoryview(b"g"))
        recorder.transport.write(b"")
        recorder.transport.writelines([b"12", b"", bytearray(b"3")])
        assert await bench.read(client, 7) == b"pong123"
        assert recorder.transport.get_write_buffer_size() == 0

    run(kind, test)


@everywhere
def test_addresses_and_options_are_those_of_the_socket(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        transport = recorder.transport
        assert transport.get_extra_info("peername") == client.getsockname()
        assert transport.get_extra_info("sockname") == client.getpeername()
        assert transport.get_extra_info("cipher", "none") == "none"
        opened = transport.get_extra_info("socket")
        assert opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        del opened
        gc.collect()
        assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        transport.write(b"still open")
        assert await bench.read(client, 10) == b"still open"

    run(kind, test)


@everywhere
def test_another_protocol_takes_over_with_the_next_chunk(kind):
    async def test(bench: Bench) -> None:
        client, first = await bench.connect()
        second = Recorder(bench)
        first.on_data = lambda recorder, _data: recorder.transport.set_protocol(second)
        client.send(b"1")
        await bench.until(lambda: first.received)
        assert first.transport.get_protocol() is second
        client.send(b"2")
        await bench.until(lambda: second.received == b"2")
        first.transport.set_protocol(first)

    run(kind, test)


@everywhere
def test_closing_sends_what_is_buffered_first(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        payload = Random(1).randbytes(8 * MIB)
        recorder.transport.write(payload)
        assert recorder.transport.get_write_buffer_size()
        recorder.transport.close()
        assert recorder.transport.is_closing()
        await asyncio.sleep(0)
        assert not recorder.lost
        assert await bench.read(client, len(payload) + 1) == payload
        await bench.until(lambda: recorder.lost == [None])

    run(kind, test)


@everywhere
def test_aborting_does_not_send_what_is_buffered(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        recorder.transport.write(bytes(16 * MIB))
        recorder.transport.abort()
        assert not recorder.lost, "never within the call"
        assert recorder.transport.is_closing()
        await bench.until(lambda: recorder.lost == [None])
        with contextlib.suppress(ConnectionError):
            assert len(await bench.read(client, 16 * MIB)) < 16 * MIB

    run(kind, test)


@everywhere
def test_the_connection_is_lost_once_whatever_is_called(kind):
    async def test(bench: Bench) -> None:
        _, recorder = await bench.connect()
        for end in (recorder.transport.close, recorder.transport.abort, recorder.transport.close):
            end()
        await bench.until(lambda: recorder.lost)
        recorder.transport.abort()
        recorder.transport.close()
        await asyncio.sleep(0)
        assert recorder.lost == [None]
        assert recorder.transport.is_closing()
        assert not bench.complaints

    run(kind, test)


@in_the_kernel
def test_what_is_written_after_closing_is_ignored(kind):
    """The event loops differ: they send it, or ignore it, or raise."""

    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        recorder.transport.write(bytes(8 * MIB))
        recorder.transport.close()
        recorder.transport.write(b"too late")
        recorder.transport.writelines([b"too", b"late"])
        assert len(await bench.read(client, 9 * MIB)) == 8 * MIB
        await bench.until(lambda: recorder.lost == [None])
        recorder.transport.write(b"to nobody")
        recorder.transport.resume_reading()
        recorder.transport.write_eof()
        assert recorder.transport.get_extra_info("peername") is None
        assert not bench.complaints

    run(kind, test)


@everywhere
def test_a_reset_of_the_peer_is_told_as_what_it_is(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        client.send(b"x")
        await bench.until(lambda: recorder.received)
        reset(client)
        await bench.until(lambda: recorder.lost)
        assert [type(one) for one in recorder.lost] == [ConnectionResetError]
        assert not bench.complaints

    run(kind, test)


@everywhere
def test_the_end_of_the_peer_closes_unless_the_protocol_keeps_its_half(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        client.shutdown(socket.SHUT_WR)
        await bench.until(lambda: recorder.lost == [None])
        assert recorder.calls == ["eof"]
        client, recorder = await bench.connect()
        recorder.keeps_half_open = True
        client.send(b"question")
        client.shutdown(socket.SHUT_WR)
        await bench.until(lambda: recorder.calls)
        assert recorder.received == b"question"
        assert not recorder.transport.is_closing()
        recorder.transport.write(b"answer")
        recorder.transport.close()
        assert await bench.read(client, 100) == b"answer"
        await bench.until(lambda: recorder.lost == [None])

    run(kind, test)


@everywhere
def test_the_end_of_our_half_comes_after_what_is_buffered(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        assert recorder.transport.can_write_eof()
        recorder.transport.write(bytes(4 * MIB))
        recorder.transport.write_eof()
        assert len(await bench.read(client, 5 * MIB)) == 4 * MIB
        client.send(b"still heard")
        await bench.until(lambda: recorder.received == b"still heard")
        with pytest.raises(RuntimeError):
            recorder.transport.write(b"more")

    run(kind, test)


@everywhere
def test_nothing_is_received_while_reading_is_paused(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        other, other_recorder = await bench.connect()
        assert recorder.transport.is_reading()
        recorder.transport.pause_reading()
        assert not recorder.transport.is_reading()
        client.send(b"for later")
        for _ in range(3):
            other.send(b"x")
            await bench.until(lambda: other_recorder.received)
            other_recorder.received.clear()
        assert not recorder.received
        recorder.transport.resume_reading()
        await bench.until(lambda: recorder.received == b"for later")

    run(kind, test)


@everywhere
def test_a_reset_is_not_noticed_before_reading_goes_on(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        other, other_recorder = await bench.connect()
        recorder.transport.pause_reading()
        reset(client)
        other.send(b"x")
        await bench.until(lambda: other_recorder.received)
        begun = bench.turns.begun
        for _ in range(20):
            await asyncio.sleep(0)
        assert bench.turns.begun - begun <= 2, "the poller turns around an error nobody asks for"
        recorder.transport.resume_reading()
        await bench.until(lambda: recorder.lost)

    run(kind, test)


@everywhere
def test_water_marks_pause_and_resume_the_protocol(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        transport = recorder.transport
        transport.set_write_buffer_limits(high=100_000)
        assert transport.get_write_buffer_limits() == (25_000, 100_000)
        transport.write(bytes(8 * MIB))
        assert recorder.calls == ["pause"]
        transport.write(bytes(10))
        assert recorder.calls == ["pause"]
        assert len(await bench.read(client, 8 * MIB + 10)) == 8 * MIB + 10
        await bench.until(lambda: recorder.calls == ["pause", "resume"])
        assert transport.get_write_buffer_size() <= 25_000
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high=1, low=2)

    run(kind, test)


@everywhere
def test_lower_limits_pause_at_once_if_something_waits(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        transport = recorder.transport
        transport.set_write_buffer_limits(high=64 * MIB)
        transport.write(bytes(8 * MIB))
        assert recorder.calls == []
        transport.set_write_buffer_limits(high=0)
        assert recorder.calls == ["pause"]
        await bench.read(client, 8 * MIB)
        await bench.until(lambda: recorder.calls == ["pause", "resume"])
        assert transport.get_write_buffer_size() == 0

    run(kind, test)


@everywhere
def test_much_output_reaches_a_slow_reader_intact(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        shrink(recorder)
        random = Random(2)
        sent, received, size = sha256(), sha256(), 0
        for number in range(600):
            pieces = [random.randbytes(random.choice((0, 1, 70, 3000))) for _ in range(20)]
            if number % 2:
                recorder.transport.writelines(pieces)
            else:
                recorder.transport.write(b"".join(pieces))
            sent.update(b"".join(pieces))
            size += sum(map(len, pieces))
            if number % 10 == 0:
                part = await bench.read(client, min(size // 4, 50_000))
                received.update(part)
                size -= len(part)
        received.update(await bench.read(client, size))
        assert received.digest() == sent.digest()

    run(kind, test)


@everywhere
def test_much_input_is_received_intact(kind):
    async def test(bench: Bench) -> None:
        client, recorder = await bench.connect()
        payload = Random(3).randbytes(6 * MIB)
        await bench.loop.sock_sendall(client, payload)
        await bench.until(lambda: len(recorder.received) == len(payload))
        assert recorder.received == payload

    run(kind, test)


@everywhere
def test_a_protocol_may_end_any_other_connection(kind):
    """Both have input in the same turn; the one that is read second must not be read."""

    async def test(bench: Bench) -> None:
        pairs = [await bench.connect() for _ in range(8)]
        killed: set[Recorder] = set()

        def kill_the_others(killer: Recorder, _data: bytes) -> None:
            if killer in killed:
                raise AssertionError("received after it was closed")
            for other in bench.made:
                if other is not killer and other not in killed:
                    killed.add(other)
                    (other.transport.abort if len(killed) % 2 else other.transport.close)()

        for client, recorder in pairs:
            recorder.on_data = kill_the_others
            client.send(b"x")
        await bench.until(lambda: sum(bool(one.lost) for one in bench.made) == 7)
        assert [len(one.received) for one in bench.made if one not in killed] == [1]
        assert not any(one.received for one in killed)
        assert not bench.complaints

    run(kind, test)


@everywhere
def test_a_protocol_may_pause_any_other_connection(kind):
    async def test(bench: Bench) -> None:
        pairs = [await bench.connect() for _ in range(8)]

        def pause_the_others(chosen: Recorder, _data: bytes) -> None:
            for other in bench.made:
                if other is not chosen:
                    other.transport.pause_reading()

        for client, recorder in pairs:
            recorder.on_data = pause_the_others
            client.send(b"x")
        await bench.until(lambda: any(one.received for one in bench.made))
        await asyncio.sleep(0)
        assert sum(len(one.received) for one in bench.made) == 1
        for one in bench.made:
            one.on_data = lambda _recorder, _data: None
            one.transport.resume_reading()
        await bench.until(lambda: all(one.received == b"x" for one in bench.made))

    run(kind, test)


@everywhere
def test_a_new_connection_does_not_hear_what_was_meant_for_the_last_one_of_its_descriptor(kind):
    """Half of the clients leave with input unread, as many come, again and again."""

    async def test(bench: Bench) -> None:
        for turn in range(20):
            pairs = [await bench.connect() for _ in range(10)]
            for number, (client, recorder) in enumerate(pairs):
                client.send(b"%d" % turn)
                if number % 2:
                    recorder.transport.abort()
            kept = [recorder for number, (_, recorder) in enumerate(pairs) if not number % 2]
            await bench.until(lambda kept=kept: all(one.received for one in kept))
            assert {bytes(one.received) for one in kept} == {b"%d" % turn}
            for _, recorder in pairs:
                recorder.transport.abort()
        assert not bench.complaints

    run(kind, test)


@everywhere
def test_a_protocol_that_fails_ends_its_own_connection_only(kind):
    async def test(bench: Bench) -> None:
        (client, failing), (other, healthy) = await bench.connect(), await bench.connect()

        def fail(_recorder: Recorder, _data: bytes) -> None:
            raise ZeroDivisionError

        failing.on_data = fail
        client.send(b"x")
        other.send(b"y")
        await bench.until(lambda: failing.lost and healthy.received)
        assert isinstance(failing.lost[0], ZeroDivisionError)
        assert not healthy.lost
        [complaint] = bench.complaints
        assert complaint["transport"] is failing.transport
        assert complaint["protocol"] is failing
        other.send(b"z")
        await bench.until(lambda: healthy.received == b"yz")

    run(kind, test)


@in_the_kernel
def test_a_protocol_that_fails_at_its_beginning_ends_its_own_connection_only(kind):
    """The loops of asyncio and uvloop complain, and leave the connection open."""

    async def test(bench: Bench) -> None:
        def fail(_recorder: Recorder) -> None:
            raise ZeroDivisionError

        bench.on_made = fail
        bench.dial()
        await bench.until(lambda: bench.made and bench.made[0].lost)
        bench.on_made = lambda _recorder: None
        client, recorder = await bench.connect()
        client.send(b"x")
        await bench.until(lambda: recorder.received)
        assert len(bench.complaints) == 1

    run(kind, test)


@everywhere
def test_a_thousand_connections_are_all_served(kind):
    wanted = 2 * 1000 + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"needs {wanted} open files")

    async def test(bench: Bench) -> None:
        clients = [bench.dial() for _ in range(1000)]
        await bench.until(lambda: len(bench.made) == 1000)
        for number, client in enumerate(clients):
            client.send(b"%04d" % number)
        await bench.until(lambda: all(len(one.received) == 4 for one in bench.made))
        assert len({bytes(one.received) for one in bench.made}) == 1000
        for one in bench.made:
            one.transport.write(one.received)
        for number, client in enumerate(clients):
            assert await bench.read(client, 4) == b"%04d" % number

    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        run(kind, test)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@in_the_kernel
def test_without_descriptors_nobody_is_accepted_for_a_while_and_then_everybody(kind):
    async def test(bench: Bench) -> None:
        first, recorder = await bench.connect()
        client = bench.dial()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
        try:
            await bench.until(lambda: bench.complaints)
            begun = bench.turns.begun
            for _ in range(50):
                await asyncio.sleep(0)
            assert bench.turns.begun == begun, "does not try again and again"
            first.send(b"served")
            await bench.until(lambda: recorder.received == b"served")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        await bench.until(lambda: len(bench.made) == 2)
        client.send(b"x")
        await bench.until(lambda: bench.made[1].received)
        assert [one["message"] for one in bench.complaints] == [
            "socket.accept() out of system resource"
        ]

    run(kind, test)


@in_the_kernel
def test_a_turn_reads_once_from_each_socket_and_no_longer_than_a_moment(kind):
    async def test(bench: Bench) -> None:
        clients = [(await bench.connect())[0] for _ in range(4)]
        for client in clients:
            with contextlib.suppress(BlockingIOError):
                client.send(bytes(3 * MIB))
        turns: list[int] = []

        def note(_recorder: Recorder, data: bytes) -> None:
            assert len(data) <= 256 * 1024
            turns.append(bench.turns.begun)

        for one in bench.made:
            one.on_data = note
        await bench.until(lambda: len(turns) >= 8)
        assert max(map(turns.count, turns)) <= 4
        assert bench.turns.ended >= bench.turns.begun - 1

    run(kind, test)


@in_the_kernel
def test_what_came_while_reading_was_paused_is_read_before_what_came_later(kind):
    async def test(bench: Bench) -> None:
        first, paused = await bench.connect()
        second, other = await bench.connect()
        heard: list[Recorder] = []
        for recorder in (paused, other):
            recorder.on_data = lambda recorder, _data: heard.append(recorder)
        paused.transport.pause_reading()
        turns = bench.turns.begun
        first.send(b"goodbye")
        while bench.turns.begun == turns:  # noqa: ASYNC110 - found ready, which nobody is told
            await asyncio.sleep(0)
        second.send(b"hello again")
        paused.transport.resume_reading()
        await bench.until(lambda: len(heard) == 2)
        assert heard == [paused, other]

    run(kind, test)


@in_the_kernel
def test_clients_that_wait_for_an_answer_are_hardly_ever_put_off(kind):
    """They have no more to write, so a turn that waits for more is in vain: few try it."""

    async def test(bench: Bench) -> None:
        turns_wanted = 400
        pairs = [await bench.connect() for _ in range(64)]
        by_recorder = {id(recorder): client for client, recorder in pairs}

        def ask_again(recorder: Recorder, _data: bytes) -> None:
            if bench.turns.begun < turns_wanted:
                by_recorder[id(recorder)].send(b"one message")
            else:
                bench.changed.set()

        for client, recorder in pairs:
            recorder.on_data = ask_again
            client.send(b"one message")
        await bench.until(lambda: bench.turns.begun >= turns_wanted)
        assert bench.poller.gathers * 10 < turns_wanted

    run(kind, test)


@in_the_kernel
def test_a_fleet_that_writes_on_and_on_is_read_less_often(kind):
    async def test(bench: Bench) -> None:
        pairs = [await bench.connect() for _ in range(64)]
        is_over = threading.Event()

        def write_on_and_on() -> None:
            while not is_over.is_set():
                for client, _ in pairs:
                    with contextlib.suppress(BlockingIOError):
                        client.send(b"one message")

        def note(_recorder: Recorder, _data: bytes) -> None:
            if bench.poller.gathers > 3:
                bench.changed.set()

        for _, recorder in pairs:
            recorder.on_data = note
        fleet = threading.Thread(target=write_on_and_on)
        fleet.start()
        try:
            await bench.until(lambda: bench.poller.gathers > 3)
        finally:
            is_over.set()
            fleet.join()

    run(kind, test)


def open_epolls() -> int:
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += "eventpoll" in str(path.readlink())
    return found


@in_the_kernel
def test_a_poller_without_sockets_holds_no_descriptor(kind):
    async def test(bench: Bench) -> None:
        with_poller = open_epolls()
        _, recorder = await bench.connect()
        bench.server.close()
        assert open_epolls() == with_poller
        recorder.transport.abort()
        await bench.until(lambda: recorder.lost)
        await asyncio.sleep(0)
        assert open_epolls() == with_poller - 1

    run(kind, test)


def test_an_idle_transport_is_small():
    assert sys.getsizeof(SocketTransport()) <= 96
