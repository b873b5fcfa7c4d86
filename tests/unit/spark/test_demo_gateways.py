"""The demo's three protocols, at a real broker: what was acknowledged is in the journal."""

from collections import Counter
from time import monotonic
from zlib import crc32

import pytest

from penstock.client import SigningKey, connect
from penstock.errors import PenstockError
from penstock.spark.demo import gateways
from penstock.spark.demo.broker import BrokerProcess
from penstock.spark.demo.fleet import Door, Script, SensorFault, make_fleet
from penstock.spark.demo.gateways import DoorThread, enrolled

SEED, TICKS = 5, 31


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("demo")) as running:
        yield running


@pytest.fixture(scope="module")
def fleet():
    return make_fleet(12)


@pytest.fixture(scope="module")
def keys(broker, fleet) -> dict[str, SigningKey]:
    return enrolled(broker, fleet, SEED)


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(gateways, "TICK_S", 0.001)


@pytest.mark.parametrize("door", list(Door))
def test_what_a_door_was_told_is_what_the_journal_has(door, broker, fleet, keys, fast):
    thread = DoorThread(door, broker.port, fleet, keys, Script(SEED, TICKS))
    thread.begin(monotonic())
    thread.join(30)
    assert thread.error is None
    accounts = thread.ledger.accounts
    with connect([broker.servers]) as client:
        for sensor in (sensor for sensor in fleet if sensor.door is door):
            payloads = [record.payload for record in client.messages(sensor.topic)]
            account = accounts[sensor.topic]
            assert account.acknowledged == len(payloads)
            assert account.checksum == sum(map(crc32, payloads))
            is_impostor = sensor.fault is SensorFault.IMPOSTOR
            assert bool(payloads) is not is_impostor
            assert account.refused == (4 if is_impostor else 0)
    total = sum(account.acknowledged for account in accounts.values())
    assert total == thread.ledger.by_second.total()


def test_what_a_door_sends_follows_from_the_seed(tmp_path, fleet, fast):
    script = Script(SEED, TICKS)
    sensor = next(s for s in fleet if s.door is Door.MQTT and s.fault is SensorFault.STEADY)
    expected = Counter(r.payload for tick in range(TICKS) for r in script.readings(sensor, tick))
    with BrokerProcess(tmp_path) as broker, connect([broker.servers]) as client:
        thread = DoorThread(Door.MQTT, broker.port, fleet, enrolled(broker, fleet, SEED), script)
        thread.begin(monotonic())
        thread.join(30)
        found = Counter(record.payload for record in client.messages(sensor.topic))
    assert found == expected


def test_a_door_that_is_stopped_says_no_more(tmp_path, fleet):
    with BrokerProcess(tmp_path) as broker:  # its own: others count what the journal has
        thread = DoorThread(
            Door.RESP, broker.port, fleet, enrolled(broker, fleet, SEED), Script(SEED, 10_000)
        )
        thread.begin(monotonic())
        thread.stop()
        thread.join(10)
        assert not thread.is_alive()
        assert thread.error is None


def test_a_door_without_a_broker_tells_whoever_joins(fleet, keys):
    thread = DoorThread(Door.BINARY, 1, fleet, keys, Script(SEED, TICKS))
    thread.begin(monotonic())
    thread.join(10)
    assert isinstance(thread.error, PenstockError)


def test_lag_is_summed_over_topics(broker, fleet):
    with connect([broker.servers]) as client:
        for topic in ("some/a", "some/b"):
            client.produce_many(topic, [b"1", b"2", b"3"])
            client.create_group(topic, "reader")
    assert broker.lag()["reader"] == 6
