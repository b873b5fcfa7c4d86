"""Reads at nodes that are cut off: never older than what was acknowledged, unless requested."""

import asyncio
import random
import urllib.error
import urllib.request

import pytest
import redis.asyncio as redis
from click.testing import CliRunner
from redis.exceptions import ClusterDownError

from penstock.cli import penstock
from penstock.client import ClientError, connect_async
from tests.chaos.ground import Ground

pytestmark = [pytest.mark.slow, pytest.mark.asyncio, pytest.mark.timeout(300)]

STREAM = "readings"


async def three(directory):
    """Three nodes with a leader and short election timeouts."""
    ground = Ground(directory, random.Random(1), {"cluster.no_leader_timeout_s": "1s"})
    await ground.begin(3)
    return ground


def cut_off(ground, number):
    for other in set(ground.nodes) - {number}:
        ground.network.way(number, other).is_open.clear()
        ground.network.way(other, number).is_open.clear()


def resp(ground, number):
    node = ground.nodes[number]
    return redis.Redis(host="127.0.0.1", port=node.port, socket_timeout=60)


def page(ground, number, query=""):
    url = f"http://127.0.0.1:{ground.nodes[number].http_port}/topics/{STREAM}{query}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def run(ground, number, *arguments):
    """Run a command at one node."""
    port = str(ground.nodes[number].port)
    result = CliRunner().invoke(penstock, [*arguments, "-p", port])
    return result.exit_code, result.output


async def end_offset(ground, number, *, stale):
    async with connect_async(
        [ground.nodes[number].address], timeout_s=3, stale_reads=stale
    ) as client:
        return (await client.topic(STREAM)).end_offset


async def new_leader(ground, old):
    async def led() -> bool:
        return await ground.leader() not in {0, old}

    await ground.until(led, "another node leads", 60)
    return await ground.leader()


@pytest.mark.parametrize("whom", ["leader", pytest.param("follower", marks=pytest.mark.nightly)])
async def test_node_that_is_cut_off_refuses_reads_or_says_what_it_has_on_request(tmp_path, whom):
    ground = await three(tmp_path)
    try:
        first = await ground.leader()
        follower = min(set(ground.nodes) - {first})
        lost = first if whom == "leader" else follower
        async with resp(ground, first) as writer, resp(ground, follower) as other:
            for count in range(1, 10):
                await writer.xadd(STREAM, {"n": count})
                assert await other.xlen(STREAM) == count, "as soon as it was acknowledged"
        async with resp(ground, lost) as reader:
            assert await reader.xlen(STREAM) == 9
            cut_off(ground, lost)
            leader = first if whom == "follower" else await new_leader(ground, first)
            async with resp(ground, leader) as other:
                await other.xadd(STREAM, {"n": 10})
            with pytest.raises(ClusterDownError, match="READONLY"):
                await reader.xlen(STREAM)
            assert await asyncio.to_thread(page, ground, lost) == 503
            with pytest.raises(ClientError):
                await end_offset(ground, lost, stale=False)

            assert await reader.execute_command("READONLY")
            assert await reader.xlen(STREAM) == 9
            assert await asyncio.to_thread(page, ground, lost, "?stale=true") == 200
            assert await end_offset(ground, lost, stale=True) == 9
            for command in (["topics"], ["read", STREAM], ["queue", "list"]):
                code, said = await asyncio.to_thread(run, ground, lost, *command, "--stale")
                assert code == 0, said

            await ground.network.heal(late=True)
            assert await reader.execute_command("READWRITE")

            async def seen() -> bool:
                try:
                    return await reader.xlen(STREAM) == 10
                except ClusterDownError:
                    return False

            await ground.until(seen, "the node knows all again", 60)
    finally:
        await ground.close()
