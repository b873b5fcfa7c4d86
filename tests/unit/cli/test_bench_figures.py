"""What ``penstock bench`` sends and prints: percentiles, the plan, the table."""

from itertools import islice

import pytest
from click.testing import CliRunner

from penstock.cli import bench, penstock
from penstock.cli.bench_figures import (
    Figure,
    Latency,
    Plan,
    Report,
    limits,
    number_of,
    percentile,
)
from penstock.cli.bench_load import MEASUREMENTS
from penstock.client import ArgumentError

PLAN = Plan(run="r1", seconds=2.0, clients=3, rate=500, payload_bytes=20)


@pytest.mark.parametrize(
    ("values", "percent", "found"),
    [
        (range(1, 101), 50, 50),
        (range(1, 101), 99, 99),
        (range(1, 201), 99, 198),
        ([7], 50, 7),
        ([7], 99, 7),
        ([1, 2], 50, 1),
        ([1, 2], 99, 2),
        ([3, 4], 0, 3),
    ],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(values, percent, found):
    assert percentile(list(values), percent) == found


def test_of_nothing_there_is_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    assert Latency.of([]) is None


def test_latencies_need_no_order_and_are_told_in_milliseconds():
    found = Latency.of([0.3, 0.001, 0.002])
    assert found == Latency(p50_ms=2.0, p99_ms=300.0, max_ms=300.0)


def test_every_topic_of_a_run_is_below_its_prefix_and_each_client_has_its_own():
    topics = [topic for name, *_ in MEASUREMENTS for topic in PLAN.topics(name)]
    assert all(topic.startswith("bench/r1/") for topic in topics)
    assert len(set(topics)) == len(topics) == 4 + PLAN.clients
    assert PLAN.client_topic(2) in PLAN.topics("durable_many")


def test_payloads_have_the_size_asked_for_and_their_number_and_all_differ():
    found = list(islice(PLAN.payloads(1), 1000))
    assert {len(payload) for payload in found} == {20}
    assert [number_of(payload) for payload in found] == list(range(1000))
    assert len({payload[8:] for payload in found}) == 1000
    assert found[0] != next(PLAN.payloads(2))


def test_a_payload_has_room_for_its_number():
    smallest = Plan(run="r", seconds=1, clients=1, rate=1, payload_bytes=8)
    assert number_of(next(smallest.payloads(1))) == 0
    small = Plan(run="r", seconds=1, clients=1, rate=1, payload_bytes=7)
    with pytest.raises(ArgumentError, match="8 bytes"):
        next(small.payloads(1))


def test_messages_are_due_at_even_distances_however_long_those_before_took():
    assert PLAN.paced_messages == 1000
    assert [PLAN.due_s(number) for number in (0, 1, 500)] == [0.0, 0.002, 1.0]


def figure(**values):
    return Figure(name="one", title="QoS 0, flat out", **values)


def test_a_figure_tells_rate_latency_and_losses():
    one = figure(latency=Latency(1.0, 20.5, 21.0), sent=1200, lost=3, finished=True)
    one.count(1197, 2.0)
    assert one.text() == "p50 1.00 ms, p99 20.50 ms; 598/s; 3 of 1,200 lost"
    one.lost = 0
    assert one.text().endswith("none lost")


def test_a_figure_without_a_message_has_no_rate():
    one = figure()
    one.count(0, 0.0)
    assert (one.per_s, one.text()) == (None, "interrupted")


def test_the_report_is_a_table_with_what_limits_it_and_what_became_of_the_topics():
    fine, bad = figure(finished=True, client_cores=1.5, client_processes=2), figure(error="refused")
    fine.count(100, 1.0)
    report = Report(
        broker="b:1", plan=PLAN, figures=[fine, bad], limits=limits(is_local=True), topics_deleted=7
    )
    lines = report.text().splitlines()
    assert lines[0].split() == ["MEASURED", "CLIENT", "CORES", "RESULT"]
    assert lines[1].endswith(" 100/s")
    assert "1.50 of 2" in lines[1]
    assert lines[2].endswith("refused")
    assert "lower bound" in report.text()
    assert lines[-1] == "deleted the 7 topics of the run"
    report.topics_left, report.why_left, report.interrupted = ["a", "b", "c", "d"], "no", True
    assert "left behind: a, b, c, ... (no)" in report.text()
    assert "the figures so far" in report.text()


def test_the_network_counts_when_the_broker_is_elsewhere():
    assert "network" in limits(is_local=False)
    assert "network" not in limits(is_local=True)


def test_a_broker_elsewhere_is_loaded_only_when_that_is_confirmed():
    result = CliRunner().invoke(penstock, ["bench", "-h", "192.0.2.1", "--seconds", "2"], input="n")
    assert result.exit_code == 1
    assert "Load 192.0.2.1:1883 as much as it takes, for about 10 s?" in result.stderr


def test_progress_is_drawn_fifty_times_at_most():
    drawn = []
    tell = bench._in_steps(PLAN, lambda done, of: drawn.append((done, of)))
    for number in range(10_000):
        tell(number / 1000)
    assert drawn == [(step, 50) for step in range(1, 51)]
