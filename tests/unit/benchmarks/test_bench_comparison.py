"""Ratios pair neighbours; a verdict needs both ratios to agree."""

import pytest
from benchmarks.capture import Capture
from benchmarks.comparison import compare
from benchmarks.generator import Load
from benchmarks.rounds import Measurement
from benchmarks.shapes import LATENCY, MEMORY, RATE, Peer, Target, Workload

FASTER = Workload("X", "faster", "-s 64", RATE, Target(2.0))
SOONER = Workload("Y", "sooner", "-r 5000", LATENCY, Target(1.5))
BOTH = Workload("W", "both", "-s 64", RATE, Target(2.0), floor=Target(300, absolute=True))
SMALLER = Workload("Z", "smaller", "-I 10 -P 0", MEMORY, Target(4096, absolute=True))


def measured(workload, side, *values, **fields):
    return [
        Measurement(
            workload.id, side, "any", n, Load({workload.figure.key: value, "p90_us": 9.0}), **fields
        )
        for n, value in enumerate(values, start=1)
    ]


def compared(workload, ours, theirs):
    return compare(
        workload, measured(workload, "ours", *ours) + measured(workload, "theirs", *theirs)
    )


def test_the_best_of_each_side_and_the_median_of_paired_rounds():
    result = compared(FASTER, ours=(100, 400, 300), theirs=(100, 100, 200))
    assert (result.ours.best, result.ours.median) == (400, 300)
    assert result.best_ratio == 2.0
    assert result.median_ratio == 1.5


def test_for_a_latency_the_best_is_the_least():
    result = compared(SOONER, ours=(60, 50), theirs=(40, 50))
    assert (result.ours.best, result.theirs.best) == (50, 40)
    assert result.best_ratio == 1.25


@pytest.mark.parametrize(
    ("workload", "ours", "theirs", "met"),
    [
        (FASTER, (200, 200), (100, 100), "yes"),
        (FASTER, (199, 199), (100, 100), "no"),
        (FASTER, (400, 100, 100), (100, 100, 100), "close"),
        (SOONER, (60,), (40,), "yes"),
        (SOONER, (61,), (40,), "no"),
        (SMALLER, (4096,), (), "yes"),
        (SMALLER, (4097,), (700,), "no"),
        (BOTH, (300,), (100,), "yes"),
        (BOTH, (299,), (100,), "no"),
        (BOTH, (300,), (200,), "no"),
        (BOTH, (300, 250), (100, 100), "close"),
        (BOTH, (300,), (), "?"),
        (BOTH, (299,), (), "no"),
        (FASTER, (200,), (), "?"),
        (FASTER, (), (100,), "?"),
    ],
)
def test_a_target_is_met_missed_close_or_unknown(workload, ours, theirs, met):
    assert compared(workload, ours, theirs).met == met


@pytest.mark.parametrize(("noisy_sides", "met"), [(1, "yes"), (2, "yes?")])
def test_a_verdict_from_a_noisy_machine_is_in_doubt(noisy_sides, met):
    ours = measured(FASTER, "ours", 200, 200, others_cores=1.0)
    theirs = measured(FASTER, "theirs", 100, 100, others_cores=noisy_sides - 1.0)
    assert compare(FASTER, ours + theirs).met == met


def test_a_floor_is_in_doubt_as_a_ratio_is_but_memory_is_not():
    floor = Workload("V", "floor", "-s 64", RATE, floor=Target(1, absolute=True))
    assert compare(floor, measured(floor, "ours", 5, others_cores=1.0)).met == "yes?"
    assert compare(SMALLER, measured(SMALLER, "ours", 5, others_cores=1.0)).met == "yes"


def test_a_latency_of_the_queue_is_told_with_its_tail_and_the_reply():
    queue = Workload("U", "queue", "-m queue-subscribe", LATENCY, group="queue", peers=())
    figures = {"p50_us": 2.0, "p90_us": 3.0, "p99_us": 4.0, "p999_us": 5.0, "reply_p50_us": 1.0}
    notes = compare(queue, [Measurement("U", "ours", "any", 1, Load(figures))]).notes
    assert {"p50 2 / - us", "p99 4 / - us", "p99.9 5 / - us", "reply 1 / - us"} <= set(notes)


def test_without_a_target_there_is_no_verdict():
    assert compared(Workload("D1", "shown only", "-s 1024"), (5,), (1,)).met == ""


def test_a_round_with_flaws_is_not_compared_and_is_told():
    ours = measured(FASTER, "ours", 999, 200)
    ours[0].flaws.append("lost 7")
    result = compare(FASTER, ours + measured(FASTER, "theirs", 10, 100))
    assert result.ours.by_round == {2: 200}
    assert result.median_ratio == 2.0
    assert "ours 1: lost 7" in result.notes


def test_a_failed_measurement_leaves_the_others_standing():
    failed = Measurement("X", "ours", "any", 1, flaws=["failed: no start\nlog"])
    result = compare(FASTER, [failed, *measured(FASTER, "theirs", 100)])
    assert (result.ours.best, result.theirs.best, result.best_ratio) == (None, 100, None)
    assert result.notes == ("ours 1: failed: no start",)


@pytest.mark.parametrize(
    ("books", "note"),
    [(Capture(10, 10, 0), "all captured"), (Capture(10, 8, 2), "captures dropped: up to 20.0%")],
)
def test_dropped_captures_stand_beside_the_figure(books, note):
    assert note in compare(FASTER, measured(FASTER, "ours", 5, capture=books)).notes


def test_a_busy_machine_is_noted():
    noisy = measured(FASTER, "ours", 5, others_cores=0.1, stolen_cores=0.1)
    assert "noisy 1 of 2" in compare(FASTER, noisy + measured(FASTER, "theirs", 5)).notes


def test_a_record_can_be_written_as_json():
    record = compared(SMALLER, (4000,), (700,)).record()
    assert record["targets"] == [{"bound": 4096, "absolute": True}]
    assert record["ours_best"] == 4000


def test_a_second_figure_is_told_for_both_sides():
    assert "p90 9 / - us" in compared(SOONER, (50,), ()).notes


def between(*rivals, target=1.2, figure=RATE):
    """Of several peers: what the verdict is, and whom we do worst against."""
    peers = tuple(Peer(name, is_goal=is_goal) for name, is_goal, _ in rivals)
    workload = Workload("M", "several", "-s 64", figure, Target(target), peers=peers)
    measurements = measured(workload, "ours", 100, 120)
    for name, is_goal, values in rivals:
        for measurement in measured(workload, "theirs", *values, is_goal=is_goal):
            measurement.broker = name
            measurements.append(measurement)
    return compare(workload, measurements)


def test_a_target_must_be_reached_against_every_goal():
    assert between(("a", True, (50, 60)), ("b", True, (80, 90))).met == "yes"
    assert between(("a", True, (50, 60)), ("b", True, (99, 119))).met == "no"


def test_a_peer_that_is_no_goal_is_only_shown():
    result = between(("a", True, (50, 60)), ("b", False, (500, 600)))
    assert result.met == "yes"
    assert result.hardest.name == "a"
    assert [rival.name for rival in result.rivals] == ["a", "b"]


def test_the_ratios_are_those_of_the_hardest_goal():
    result = between(("a", True, (50, 60)), ("b", True, (80, 90)))
    assert (result.hardest.name, result.theirs.best) == ("b", 90)
    assert result.best_ratio == pytest.approx(120 / 90)
    sooner = between(("a", True, (50, 60)), ("b", True, (80, 90)), figure=LATENCY)
    assert sooner.hardest.name == "a"


def test_without_any_of_the_goals_nothing_is_known():
    assert between(("b", False, (10, 10))).met == "?"


def test_notes_name_peers_where_there_are_several():
    result = between(("a", True, (50, 60)), ("b", True, (80, 90)), figure=LATENCY)
    assert "p90 9 / a 9 / b 9 us" in result.notes


def test_all_peers_are_in_the_record():
    record = between(("a", True, (50, 60)), ("b", False, (80, 90))).record()
    assert [(rival["name"], rival["is_goal"]) for rival in record["rivals"]] == [
        ("a", True),
        ("b", False),
    ]
