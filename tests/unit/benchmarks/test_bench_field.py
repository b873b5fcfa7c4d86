"""The cases of ``benchmarks.field`` against a broker, shortened: what they count is there."""

import json
import random
import shutil

import pytest
from benchmarks.disk_usage import DiskWatch, usage_of
from benchmarks.field import RUNS, TOPICS, TRAFFIC, dropped, main, reading, topic_figures

needs_generator = pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("cc")), reason="the generator is a C program"
)


def figures(capsys, *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--json"]) in (0, 1), "whether goals are reached is not tested here"
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_all_files_of_a_directory_are_counted_by_blocks_and_by_length(tmp_path) -> None:
    (tmp_path / "blocks").mkdir()
    (tmp_path / "data.mdb").write_bytes(bytes(10_000))
    (tmp_path / "blocks" / "1.blk").write_bytes(bytes(5_000))
    with (tmp_path / "hollow.blk").open("wb") as file:
        file.truncate(1_000_000)
    found = usage_of(tmp_path)
    assert (found.files, found.apparent) == (3, 1_015_000)
    assert 15_000 <= found.allocated < 100_000, "a hole takes no room"
    assert found.by_kind.keys() == {".mdb", ".blk"}


def test_a_watch_keeps_the_largest_size_even_if_it_is_gone_in_the_end(tmp_path) -> None:
    file = tmp_path / "data.mdb"
    file.write_bytes(bytes(1_000_000))
    with DiskWatch(tmp_path, period_s=0.001) as watch:
        while not watch.samples:
            pass
        file.unlink()
    assert watch.apparent_max == 1_000_000
    assert watch.samples[-1][2] == 0
    assert 0 < watch.over(500_000) < 1


def test_drops_are_told_by_reason_and_zeros_are_left_out() -> None:
    metrics = {
        'penstock_dropped_total{reason="capture_overflow"}': 5.0,
        'penstock_dropped_total{reason="retention"}': 0.0,
        "penstock_captured_total": 9.0,
    }
    assert dropped(metrics) == {"capture_overflow": 5}


def test_a_reading_is_100_bytes_of_json() -> None:
    chance = random.Random(1)
    for number in (0, 999, 123_456):
        found = reading(number % 1_000, number, chance)
        assert len(found) == 100
        assert json.loads(found)["device"] == f"press-{number % 1_000:05d}"


def test_topics_are_compared_round_by_round() -> None:
    rates = dict(zip(TOPICS, ([100.0, 200.0], [100.0, 100.0], [20.0, 180.0]), strict=True))
    costs = dict(zip(TOPICS, ([2.0, 2.0], [2.0, 4.0], [8.0, 8.0]), strict=True))
    rate = [f for f in topic_figures(TOPICS[-1], rates, costs) if f.goal]
    assert [(f.value, f.rounds, f.is_met) for f in rate] == [(0.55, (0.2, 0.9), False)]
    assert not any(f.goal for f in topic_figures(TOPICS[0], rates, costs))


def test_an_unknown_case_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "nonsense" in capsys.readouterr().err
    assert set(RUNS) == {"bound", "topics", "disk", "restart"}


@needs_generator
@pytest.mark.parametrize("traffic", ["qos0-2k", "fleet"])
def test_a_bound_is_watched_while_a_load_runs(tmp_path, capsys, traffic) -> None:
    assert traffic in {t.id for t in TRAFFIC}
    common = ("--data-dir", str(tmp_path), "--seconds", "0.3")
    found = figures(capsys, "bound", "--only", traffic, *common)
    assert found[0]["id"] == traffic
    told = {figure["what"]: figure["value"] for figure in found}
    assert told["journaled"] > 0
    assert told["length of all files"] > 0


@needs_generator
def test_a_broker_is_killed_under_load_and_ready_again(tmp_path, capsys) -> None:
    common = ("--data-dir", str(tmp_path), "--rounds", "1", "--gigabytes", "0.002")
    found = figures(capsys, "restart", *common)
    assert found[0]["value"] > 0


def test_readings_on_disk_take_room(tmp_path, capsys) -> None:
    common = ("--data-dir", str(tmp_path), "--settled-seconds", "0")
    found = figures(capsys, "disk", "--readings", "3000", *common)
    assert found[0]["id"] == "disk"
    told = {figure["what"]: figure["value"] for figure in found}
    assert told["in use"] > 0
    assert told["published"] > 0
