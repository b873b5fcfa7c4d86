"""node-redis and ioredis, unmodified; ``npm install`` in node_redis/ (or NODE_PATH) fetches them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "node_redis"
NODE = shutil.which("node")
TIMEOUT_S = 30


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [NODE or "node", *arguments]
    return subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.fixture(autouse=True)
def _present():
    if NODE is None:
        pytest.skip("node is not installed")
    if node("-e", "require('redis')").returncode:
        pytest.skip("node-redis is not installed")


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_node_redis_publishes_and_listens(broker, unique, protocol):
    result = node("pubsub.js", str(broker.port), unique, protocol)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert sorted(seen.pop("messages")) == [
        ["channel", unique, "one"],
        ["channel", unique, "two"],
        ["pattern", unique, "one"],
        ["pattern", unique, "two"],
    ]
    assert seen == {"receivers": [2, 2], "name": "node", "echoed": "hello", "left": 0}


def test_ioredis_publishes_listens_and_works_on_a_stream(broker, unique):
    if node("-e", "require('ioredis')").returncode:
        pytest.skip("ioredis is not installed: npm install in tests/interop/node_redis")
    result = node("ioredis.js", str(broker.port), unique)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert sorted(seen.pop("messages")) == [
        ["channel", unique, "one"],
        ["channel", unique, "two"],
        ["pattern", unique, "one"],
        ["pattern", unique, "two"],
    ]
    assert seen == {
        "receivers": [2, 2],
        "fields": [["job", "cat.png"]],
        "acknowledged": 1,
        "name": "io",
    }
