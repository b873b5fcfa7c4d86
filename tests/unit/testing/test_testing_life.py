"""A test's broker before it starts, when it cannot start, and after it has stopped."""

import gc
import socket
import tempfile
import threading

import pytest

from penstock.errors import PenstockError, StorageError
from penstock.server import Server
from penstock.testing import AsyncBroker, Broker

NOT_RUNNING = r"not running: use it as a context manager or call start\(\)"

USES = {
    "restart": lambda broker: broker.restart(),
    "stop": lambda broker: broker.stop(),
    "call": lambda broker: broker.call(len, ""),
    "metrics": lambda broker: broker.metrics(),
    "server": lambda broker: broker.server,
}


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Where temporary directories are made during the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        yield occupant.getsockname()[1]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_broker_that_was_not_started_says_so_at_once(use):
    with pytest.raises(RuntimeError, match=NOT_RUNNING):
        use(Broker())


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_broker_that_was_stopped_says_so_at_once(use):
    with Broker() as broker:
        broker.stop()
        with pytest.raises(RuntimeError, match=NOT_RUNNING):
            use(broker)


@pytest.mark.asyncio
@pytest.mark.parametrize("use", ["restart", "stop", "metrics"])
async def test_a_broker_in_the_callers_loop_that_was_not_started_says_so(use):
    with pytest.raises(RuntimeError, match=NOT_RUNNING):
        await USES[use](AsyncBroker())


@pytest.mark.parametrize("kind", [Broker, AsyncBroker])
def test_there_is_no_port_before_the_start_unless_it_was_chosen(kind):
    with pytest.raises(RuntimeError, match=NOT_RUNNING):
        _ = kind().port
    assert kind(port=1234).port == 1234


def test_a_second_start_is_refused_and_the_broker_goes_on():
    with Broker() as broker:
        with pytest.raises(RuntimeError, match="running already"):
            broker.start()
        assert broker.call(len, "abc") == 3


def test_a_failed_start_leaves_no_thread_and_no_directory(directory, taken_port):
    threads = set(threading.enumerate())
    with pytest.raises(PenstockError), Broker(port=taken_port):
        pass
    assert set(threading.enumerate()) <= threads
    assert not list(directory.iterdir())


@pytest.mark.asyncio
async def test_a_failed_start_in_the_callers_loop_leaves_no_directory(directory, taken_port):
    with pytest.raises(PenstockError):
        async with AsyncBroker(port=taken_port):
            pass
    assert not list(directory.iterdir())


def restart_in_vain(monkeypatch):
    """Have a broker whose second start fails."""

    async def fail(_server):
        raise StorageError("no luck")

    with Broker() as broker:
        monkeypatch.setattr(Server, "start", fail)
        broker.restart()


def test_a_failed_restart_is_what_the_test_gets_to_see_and_leaves_nothing(directory, monkeypatch):
    threads = set(threading.enumerate())
    with pytest.raises(StorageError, match="no luck"):
        restart_in_vain(monkeypatch)
    assert set(threading.enumerate()) <= threads
    assert not list(directory.iterdir())


def test_a_broker_that_is_never_started_makes_nothing(directory):
    threads = set(threading.enumerate())
    Broker()
    assert set(threading.enumerate()) <= threads
    assert not list(directory.iterdir())


def test_stopped_and_started_again_it_has_its_port_and_data(directory):
    with Broker() as broker:
        port, (data,) = broker.port, directory.iterdir()
        broker.stop()
        broker.start()
        assert broker.port == port
        assert list(directory.iterdir()) == [data]
    assert not list(directory.iterdir())


def test_without_with_the_directory_goes_when_the_broker_is_forgotten(directory):
    broker = Broker()
    broker.start()
    broker.stop()
    assert list(directory.iterdir())
    del broker
    gc.collect()
    assert not list(directory.iterdir())
