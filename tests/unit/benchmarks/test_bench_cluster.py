"""Three nodes are measured as they are: real processes, each load once, nothing carried over."""

import asyncio
import shutil
import sys
import time

import pytest
from benchmarks.brokers import HOST, BrokerError, free_port
from benchmarks.cluster import LOADS, SINGLE, Findings, earlier, figures_of, main, run_load
from benchmarks.trio import Trio
from benchmarks.workloads import WORKLOADS


def test_rates_count_by_their_best_and_latencies_by_their_median() -> None:
    found = Findings()
    for name, values in {
        "produce acked_per_s": [9_000, 12_000, 8_000],
        "produce leader": [3, 1, 2],
        "produce follower": [5, 4, 6],
        "latency p50_us": [1_000, 9_000, 6_000],
        "latency p99_us": [1, 2, 3],
        "latency leader": [1],
        "latency follower": [1],
        "failover": [1.0, 3.5],
    }.items():
        for value in values:
            found.add(name, value)
    told = {figure.id: figure for figure in figures_of(found) if figure.id}
    assert (told["produce"].value, told["produce"].is_met) == (12_000, True)
    assert (told["latency"].value, told["latency"].is_met) == (6_000, False)
    assert (told["failover"].value, told["failover"].is_met) == (3.5, False), "the worst"
    costs = [figure.value for figure in figures_of(found) if figure.what == "CPU of leader"]
    assert costs == [2, 1]


def test_loads_have_names_of_their_own_as_topics_are_named_after_them() -> None:
    assert len({case.id for case in LOADS}) == len(LOADS)
    assert set(SINGLE) <= WORKLOADS.keys()


def test_what_is_no_checkout_is_refused(tmp_path) -> None:
    with pytest.raises(BrokerError, match="no checkout"):
        earlier(tmp_path)


def test_single_wants_to_know_what_to_compare_with(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["single"])
    assert "--earlier" in capsys.readouterr().err


@pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("cc")), reason="the generator is a C program"
)
def test_a_load_is_put_on_three_nodes_and_its_cost_is_told(tmp_path) -> None:
    found = Findings()
    with Trio.running(tmp_path) as trio:
        run_load(LOADS[0], trio, 0.3, found)
        run_load(LOADS[-1], trio, 0.3, found)
        assert trio.leader().applied == trio.follower().applied > 0
    for case in (LOADS[0], LOADS[-1]):
        assert found.values[f"{case.id} acked_per_s"][0] > 0
        assert found.values[f"{case.id} leader"][0] > 0
        assert found.values[f"{case.id} follower"][0] > 0


@pytest.mark.asyncio
async def test_a_delayed_link_passes_everything_on_in_order_and_late() -> None:
    """Also what is sent before the way to the target is open, and the end of a connection."""

    async def echo(reader, writer) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    port, server = free_port(), await asyncio.start_server(echo, HOST, 0)
    target = server.sockets[0].getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.delay", "30", f"{port}:{target}"]
    pipe = asyncio.subprocess.PIPE
    relay = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert await relay.stdout.readline() == b"listening\n"
    reader, writer = await asyncio.open_connection(HOST, port)
    said = b"".join(b"%d " % number for number in range(20_000))
    started = time.perf_counter()
    for first in range(0, len(said), 1_000):
        writer.write(said[first : first + 1_000])
    assert await reader.readexactly(len(said)) == said
    assert time.perf_counter() - started >= 0.06
    writer.write_eof()
    await asyncio.wait_for(reader.read(), 30)
    writer.close()
    server.close()
    await relay.communicate(b"")  # ends it
    assert relay.returncode == 0
