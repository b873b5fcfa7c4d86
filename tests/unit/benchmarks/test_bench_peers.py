"""Each workload has its own peer; those that are not installed are left out."""

import pytest
from benchmarks.__main__ import fitted, peers, tables
from benchmarks.brokers import (
    BROKERS,
    InterpretedPenstockBroker,
    NatsBroker,
    PenstockBroker,
    RedisBroker,
    SyncedRedisBroker,
    earlier,
)
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
    assert [kind for _, kind in found.peers_of(WORKLOADS["R1"])] == [RedisBroker]
    assert found.peers_of(WORKLOADS["X1"]) == []
    assert found.peers_of(WORKLOADS["BP1"]) == []


def test_there_is_a_table_for_each_peer():
    comparisons = [compare(workload, []) for workload in named("R1", "BP1", "R10")]
    found = bench({"redis": RedisBroker})
    with_redis, alone, compared = tables(comparisons, found).split("\n\n")
    assert "R1 " in with_redis
    assert "R10" in with_redis
    assert "redis" in with_redis
    assert "BP1" in alone
    assert "redis" not in alone
    assert [part.split()[0] for part in compared.split("; ")] == ["penstock", "redis"]


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


def test_the_field_has_one_table_with_a_column_for_each_peer():
    def told(id_, broker, value, side="theirs"):
        figures = {WORKLOADS[id_].figure.key: value}
        figures["broker_us_per_message"] = 1.5 if side == "ours" else 3.0
        return Measurement(id_, side, broker, 1, Load(figures))

    mixed = [told("fM", "penstock", 240.0, "ours"), told("fM", "nats", 200.0)]
    stream = [told("fX1", "penstock", 90.0, "ours"), told("fX1", "redis-synced", 100.0)]
    comparisons = [compare(WORKLOADS["fM"], mixed), compare(WORKLOADS["fX1"], stream)]
    found = bench({"nats": NatsBroker, "redis-synced": SyncedRedisBroker})
    table, compared = tables(comparisons, found).split("\n\n")
    head, _, first, second = table.splitlines()
    assert head.split()[2:5] == ["penstock", "nats", "redis"]
    assert "1.20x         1.20x   2.00x  nats   >= 1.2x  yes" in first
    assert "0.90x         0.90x   2.00x  redis  >= 0.9x  yes" in second
    assert "nats" in compared


def test_our_own_kind_in_place_of_peers_has_our_load_and_no_targets(tmp_path):
    (tmp_path / "src" / "penstock").mkdir(parents=True)
    for instead in ("penstock-interpreted", earlier(tmp_path)):
        workload = fitted(WORKLOADS["fX50"], "penstock", instead)
        (peer,) = workload.peers
        assert workload.of_peer(peer).load == workload.load
        assert workload.targets == ()
    assert fitted(WORKLOADS["fX50"], "penstock", "redis") is WORKLOADS["fX50"]


def test_the_version_of_ours_says_at_which_speed_it_runs():
    assert PenstockBroker.version().endswith((", compiled", ", interpreted"))
    assert InterpretedPenstockBroker.version().endswith(", interpreted")
