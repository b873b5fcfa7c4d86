"""Workloads are found by id, by letter and by group, and know what flows."""

from pathlib import Path

import pytest
from benchmarks.machine import Cores
from benchmarks.rounds import Bench, options_for
from benchmarks.workloads import (
    CLIENT,
    GROUPS,
    MQLOAD,
    WORKLOADS,
    UnknownWorkloadError,
    select,
)


def ids(*names):
    return [workload.id for workload in select(names)]


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
    assert accounted.isdisjoint({"E", "F", "Ei", "H1", "G2k", "X1", "BP64", "SIG", "ACK"})


def test_a_peer_has_our_load_unless_it_has_its_own_and_never_our_settings():
    assert WORKLOADS["R1s"].of_peer().load == WORKLOADS["R1s"].load
    assert WORKLOADS["R1s"].of_peer().settings == {}
    acknowledged = WORKLOADS["ACK"]
    assert acknowledged.load == f"{acknowledged.of_peer().load} -a"


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
    peer = WORKLOADS["QM"].of_peer()
    assert peer.load == WORKLOADS["Q50"].of_peer().load == "-m xadd -P 50 -s 100"


def test_only_our_own_client_drives_our_own_client():
    own = {id_ for id_ in WORKLOADS if WORKLOADS[id_].driver == CLIENT}
    assert own == {"QC32", "QCM", "QCS"}
    assert {WORKLOADS[id_].of_peer().driver for id_ in own} == {MQLOAD}


def test_the_disk_stands_beside_every_figure_of_the_queue():
    assert all(workload.is_flushed for workload in select(["queue"]))


def test_a_duration_is_added_only_where_messages_flow():
    bench = Bench(None, {}, 1, 0.5, 1, Cores(None, None), Path())
    assert options_for(WORKLOADS["A"], bench) == "-s 64 -d 0.5 -W 60"
    assert "-d" not in options_for(WORKLOADS["G2k"], bench)
    assert "-d" not in options_for(WORKLOADS["QPM"], bench)
