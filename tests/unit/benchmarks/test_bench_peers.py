"""Each workload has its own peer; those that are not installed are left out."""

import pytest
from benchmarks.__main__ import peers, tables
from benchmarks.brokers import BROKERS, PenstockBroker, RedisBroker
from benchmarks.comparison import compare
from benchmarks.generator import Load
from benchmarks.machine import Cores, flush_us
from benchmarks.rounds import Bench, Measurement
from benchmarks.signing import BareVerification
from benchmarks.workloads import WORKLOADS


@pytest.fixture
def installed(monkeypatch):
    for kind in BROKERS.values():
        monkeypatch.setattr(kind, "program", classmethod(lambda cls: f"/bin/{cls.name}"))


def named(*ids):
    return [WORKLOADS[id_] for id_ in ids]


def bench(found, path=None):
    return Bench(PenstockBroker, found, 1, 0.1, 1, Cores(None, None), path)


def test_workloads_bring_their_own_peers(installed):
    found = peers(None, named("R1", "SIG", "ACK", "BP1"))
    assert found == {"redis": RedisBroker, "nacl": BareVerification, "penstock": PenstockBroker}


def test_one_broker_can_stand_in_for_all_peers_and_none_for_none(installed):
    assert peers("redis", named("A", "X1")) == {
        "mosquitto": RedisBroker,
        "redis-synced": RedisBroker,
    }
    assert peers("none", named("A", "X1")) == {}


def test_a_peer_that_is_not_installed_is_told_and_left_out(installed, monkeypatch, capsys):
    monkeypatch.setattr(RedisBroker, "program", classmethod(lambda cls: None))
    assert peers(None, named("R1")) == {}
    assert "redis is not installed" in capsys.readouterr().out


def test_a_workload_without_a_peer_has_nobody_beside_it():
    found = bench({"redis": RedisBroker})
    assert found.peer_of(WORKLOADS["R1"]) is RedisBroker
    assert found.peer_of(WORKLOADS["X1"]) is None
    assert found.peer_of(WORKLOADS["BP1"]) is None


def test_there_is_a_table_for_each_peer():
    comparisons = [compare(workload, []) for workload in named("R1", "BP1", "R10")]
    with_redis, alone = tables(comparisons, bench({"redis": RedisBroker})).split("\n\n")
    assert "R1 " in with_redis
    assert "R10" in with_redis
    assert "redis" in with_redis
    assert "BP1" in alone
    assert "redis" not in alone


def test_the_disk_of_the_run_stands_beside_what_waits_for_it():
    figures = {"acked_per_s": 9.0, "p50_us": 20.0, "broker_us_per_message": 3.5}
    ours = [Measurement("X1", "ours", "any", n, Load(figures), flush_us=n) for n in (100, 200, 900)]
    notes = compare(WORKLOADS["X1"], ours).notes
    assert "a flush of this disk 200 us" in notes
    assert "p50 20 / - us" in notes
    assert "CPU 3.50 / - us/msg" in notes


def test_a_figure_that_one_side_does_not_have_is_left_open():
    bare = Measurement("SIG", "theirs", "any", 1, Load({"acked_per_s": 9.0}))
    assert "p50 - / - us" in compare(WORKLOADS["SIG"], [bare]).notes


def test_a_flush_takes_time(tmp_path):
    assert flush_us(tmp_path) > 0
