"""The pace and the plan of a replay."""

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines import replay


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def waits(
    ticks: list[tuple[int, int]], speed: float, work_s: float = 0.0
) -> list[tuple[float, int]]:
    """Follow the pace, with some work to do for each slice."""
    clock, found = Clock(), []
    for wait_s, bound in replay.paced(ticks, speed, clock):
        found.append((round(wait_s, 6), bound))
        clock.now += wait_s + work_s
    return found


def test_slices_follow_each_other_as_they_once_did() -> None:
    assert waits([(1000, 5), (2000, 7), (9000, 8)], 1.0) == [(0, 5), (1, 7), (7, 8)]


def test_ten_times_the_speed_is_a_tenth_of_the_time() -> None:
    assert waits([(1000, 5), (11000, 7)], 10.0) == [(0, 5), (1, 7)]


def test_who_is_late_does_not_wait_and_catches_up() -> None:
    assert waits([(1000, 1), (2000, 2), (3000, 3), (9000, 4)], 1.0, 1.5) == [
        (0, 1),
        (0, 2),
        (0, 3),
        (3.5, 4),
    ]


def test_bounds_only_rise_though_the_clock_was_set_back() -> None:
    assert [bound for _, bound in waits([(1000, 9), (2000, 4), (3000, 12)], 1.0)] == [9, 9, 12]


def test_a_long_pause_is_slept_in_pieces_so_that_it_can_be_told() -> None:
    assert list(replay.pauses(1500.0)) == [(600, 1500), (600, 900), (300, 300)]
    assert list(replay.pauses(0.0)) == []


ENDS = {"s/1": (7, 5)}


def test_a_plan_is_made_once_and_stays(tmp_path: Path) -> None:
    plan = replay.settle(tmp_path, "a/b", lambda _: ENDS, subscribe="s/#")
    assert plan.ends == ENDS
    later = {"s/1": (7, 9)}
    assert replay.settle(tmp_path, "a/b", lambda _: later, subscribe="s/#") == plan
    assert replay.settle(tmp_path, "c", lambda _: later, subscribe="s/#").digest != plan.digest


def test_any_lawful_name_has_a_file_of_its_own(tmp_path: Path) -> None:
    names = ["ü" * 90, "ü" * 90 + "a", "a/b", "a%2Fb", "..", "x" * 189]
    for number, name in enumerate(names):
        replay.settle(tmp_path, name, lambda _, n=number: {"s/1": (1, n)})
    found = [replay.settle(tmp_path, name, lambda _: {}).ends["s/1"][1] for name in names]
    assert found == list(range(len(names)))
    assert {path.parent.name for path in tmp_path.rglob("*.json")} == {"replays"}


def test_a_job_does_not_change_what_it_is(tmp_path: Path) -> None:
    replay.settle(tmp_path, "a", lambda _: ENDS, subscribe="s/#")
    with pytest.raises(ConfigError, match="was started with"):
        replay.settle(tmp_path, "a", lambda _: ENDS, subscribe="#")


@pytest.mark.parametrize("wrong", [{"job": "a/#"}, {"job": "x" * 200}, {"to": "a/+"}, {"to": ""}])
def test_names_that_cannot_be_are_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(ConfigError):
        replay.settle(tmp_path, **{"job": "a", "look": lambda _: ENDS, **wrong})
    assert not (tmp_path / "replays").exists()


def test_times_without_a_zone_are_utc() -> None:
    assert str(replay.moment("2030-01-31")) == "2030-01-31 00:00:00+00:00"
    assert str(replay.moment("2030-01-31T08:00+01:00")) == "2030-01-31 08:00:00+01:00"
    assert replay.moment("") is None
    with pytest.raises(ConfigError, match="is not a time"):
        replay.moment("yesterday")
