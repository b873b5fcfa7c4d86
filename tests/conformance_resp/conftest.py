"""A broker and a real Redis, and a way to send the same commands to both."""

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from penstock.testing import Broker
from tests.conformance_resp.wire import ask

REDIS = shutil.which("redis-server")

Ask = Callable[..., bytes]


@pytest.fixture(scope="session")
def redis_port() -> Iterator[int]:
    """The port of a redis-server without persistence; skips if not installed."""
    if REDIS is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [REDIS, "--port", str(port), "--save", "", "--bind", "127.0.0.1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if "Ready to accept connections" in line:
            break
    yield port
    server.terminate()
    server.communicate()


@pytest.fixture(scope="session")
def strict_broker() -> Iterator[Broker]:
    """Plain Redis semantics, as by default."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def ask_redis(redis_port: int) -> Ask:
    """Send commands to Redis, on a separate connection."""
    return lambda *commands: _plain(ask(redis_port, *commands))


@pytest.fixture
def ask_penstock(strict_broker: Broker) -> Ask:
    """Send commands to Penstock, on a separate connection."""
    return lambda *commands: _plain(ask(strict_broker.port, *commands))


def _plain(answer: bytes) -> bytes:
    """Make numbers of connections alike: they differ from one to the next."""
    return re.sub(rb"(?<=\$2\r\nid\r\n):\d+", b":7", answer)
