"""Workloads are found by id, by letter and by group, and know what flows."""

from pathlib import Path

import pytest
from benchmarks.machine import Cores
from benchmarks.rounds import Bench, options_for
from benchmarks.shapes import CLIENT, MOSQUITTO, MQLOAD, Peer
from benchmarks.workloads import GROUPS, WORKLOADS, UnknownWorkloadError, select


def ids(*names):
    return [workload.id for workload in select(names)]


def of_peer(id_):
    """The one peer's part of a workload."""
    (peer,) = WORKLOADS[id_].peers
    return WORKLOADS[id_].of_peer(peer)


def test_an_id_is_itself_alone():
    assert ids("A") == ["A"]


def test_a_letter_stands_for_all_that_begin_with_it():
    assert ids("G") == ["G2k", "G10k"]


def test_the_order_is_that_of_the_table_and_nothing_comes_twice():
    assert ids("M", "A", "M") == ["A", "M"]


def test_groups_part_the_workloads():
    assert [id_ for group in GROUPS for id_ in ids(group)] == ids("all") == list(WORKLOADS)


@pytest.mark.parametrize("name", ["Z", "", "A2", "cor"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(UnknownWorkloadError, match="there are"):
        select([name])


def test_captures_are_accounted_where_qos_0_flows():
    accounted = {id_ for id_, workload in WORKLOADS.items() if workload.is_fire_and_forget}
    assert {"A", "M", "H0", "K10k", "S1k", "T1", "R1", "R10s"} <= accounted
    idle = WORKLOADS["fI"]
    assert not any(idle.of_peer(peer).is_fire_and_forget for peer in idle.peers)
    assert accounted.isdisjoint({"E", "F", "Ei", "H1", "G2k", "X1", "BP64", "SIG", "ACK"})


def test_a_peer_has_our_load_unless_it_has_its_own_and_never_our_settings():
    assert of_peer("R1s").load == WORKLOADS["R1s"].load
    assert of_peer("R1s").settings == {}
    assert WORKLOADS["ACK"].load == f"{of_peer('ACK').load} -a"


def test_the_goals_of_the_doors_are_those_of_the_issue():
    goals = {id_: WORKLOADS[id_].target for id_ in ("R1", "R10", "X1", "X50", "SIG", "ACK")}
    assert [goal.bound for goal in goals.values()] == [1.0, 1.0, 0.5, 1.0, 0.8, 0.9]
    assert WORKLOADS["BP1"].target is None


def test_the_goals_of_the_queue_are_those_of_the_issue():
    goals = {id_: [bound for bound, _ in WORKLOADS[id_].targets] for id_ in ids("queue")}
    assert goals["Q32"] == [0.5, 20_000]
    assert goals["Q50"] == [1.0, 120_000]
    assert goals["QM"] == [1.5]
    assert goals["QPE"] == goals["QPM"] == [100_000]
    assert goals["QU1"] == [20_000]
    assert goals["QL"] == [1_000]
    assert goals["QD"] == []


def test_the_goals_of_those_who_wait_are_those_of_the_issue():
    goals = {id_: [*WORKLOADS[id_].targets] for id_ in ids("waiting")}
    assert goals["W20"] == [(150, True)]
    assert goals["W20f"] == [(3, True)]
    assert goals["W500"] == [(1.0, False)]
    assert all(WORKLOADS[id_].is_flushed for id_ in goals)
    assert [id_ for id_ in goals if WORKLOADS[id_].beside] == ["WF"]


def test_batches_are_compared_with_single_messages_of_many_connections():
    assert of_peer("QM").load == of_peer("Q50").load == "-m xadd -P 50 -s 100"


def test_only_our_own_client_drives_our_own_client():
    own = {id_ for id_ in WORKLOADS if WORKLOADS[id_].driver == CLIENT}
    assert own == {"QC32", "QCM", "QCS"}
    assert {WORKLOADS[id_].of_peer(MOSQUITTO).driver for id_ in own} == {MQLOAD}


def test_the_disk_stands_beside_every_figure_of_the_queue():
    assert all(workload.is_flushed for workload in select(["queue"]))


def test_a_duration_is_added_only_where_messages_flow():
    bench = Bench(None, {}, 1, 0.5, 1, Cores(None, None), Path())
    assert options_for(WORKLOADS["A"], bench) == "-s 64 -d 0.5 -W 60"
    assert "-d" not in options_for(WORKLOADS["G2k"], bench)
    assert "-d" not in options_for(WORKLOADS["QPM"], bench)


def goals_of(id_):
    return [peer.name for peer in WORKLOADS[id_].peers if peer.is_goal]


@pytest.mark.parametrize(
    ("id_", "bound", "goals"),
    [
        ("fM", 1.2, ["nats"]),
        ("fMr", 1.2, ["redis"]),
        ("fMp", 1.2, ["redis"]),
        ("fK", 0.9, ["redis"]),
        ("fKr", 0.9, ["redis"]),
        ("fF", 1.2, ["mosquitto", "nats", "redis"]),
        ("fFr", 1.0, ["redis"]),
        ("fA1", 1.2, ["nats"]),
        ("fC1", 1.2, ["nats"]),
        ("R1w", 1.0, ["redis"]),
        ("R10w", 1.0, ["redis"]),
        ("fX50", 1.2, ["redis-synced"]),
        ("fX32", 0.9, ["redis-synced"]),
        ("fX1", 0.9, ["redis-synced"]),
        ("fG1", 1.0, ["redis-synced"]),
        ("fG100", 1.0, ["redis-synced"]),
        ("fU50", 1.0, ["redis-synced"]),
        ("fL", 1.1, ["mosquitto"]),
    ],
)
def test_the_goals_of_the_field_are_relative_to_the_peer_that_is_to_be_beaten(id_, bound, goals):
    assert WORKLOADS[id_].targets == ((bound, False),)
    assert goals_of(id_) == goals


def test_every_workload_of_the_field_has_a_target():
    assert all(workload.targets for workload in select(["field"]))
    assert WORKLOADS["fI"].targets == ((1536, True),)


def test_each_peer_of_the_field_has_the_same_load_by_its_own_protocol():
    mixed = WORKLOADS["fM"]
    loads = {peer.name: mixed.of_peer(peer).load for peer in mixed.peers}
    assert loads["mosquitto"] == mixed.load
    assert loads["nats"] == f"-m nats {mixed.load}"
    assert loads["redis"] == f"-m resp-pubsub {mixed.load}"


def test_fields_of_streams_in_the_field_are_ordinary_and_vary():
    streams = [w for w in select(["field"]) if "-m x" in w.load]
    assert len(streams) == 5
    assert all(" -O" in workload.load for workload in streams)


def test_another_broker_in_our_place_has_the_load_of_its_protocol():
    assert WORKLOADS["fM"].of_broker("nats").load.startswith("-m nats")
    assert WORKLOADS["fM"].of_broker("penstock") is WORKLOADS["fM"]


def test_a_peer_of_our_own_kind_may_have_our_settings():
    own = Peer("penstock", has_settings=True)
    assert WORKLOADS["R1s"].of_peer(own).settings == WORKLOADS["R1s"].settings != {}
