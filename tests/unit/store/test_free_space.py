"""A warning before the disk is full: once, with advice, and again only after there was room."""

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from penstock.limits import GIB, MIB
from penstock.store.free_space import EVERY_S, DiskWatch, FreeSpace, free_bytes, free_space


@pytest.mark.parametrize(
    ("total", "little"),
    [
        (100 * MIB, 25 * MIB),
        (GIB, 256 * MIB),
        (10 * GIB, 512 * MIB),
        (100 * GIB, 2 * GIB),
        (10_000 * GIB, 2 * GIB),
    ],
)
def test_little_is_a_twentieth_within_limits(total, little):
    assert FreeSpace(0, total).little == little


@pytest.fixture
def every_level():
    """Another test may have raised the level of the log."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(0))
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("every_level")
def test_each_crossing_is_logged_once():
    watch = DiskWatch(Path())
    with capture_logs() as lines:
        for free in (600, 511, 300, 520, 511, 564, 600, 100):
            watch.seen(FreeSpace(free * MIB, 10 * GIB))
    events = [(line["event"], line["log_level"], line["free_bytes"] // MIB) for line in lines]
    assert events == [
        ("disk_nearly_full", "warning", 511),
        ("disk_has_room", "info", 564),
        ("disk_nearly_full", "warning", 100),
    ]
    assert "journal.total_bytes_max" in lines[0]["advice"]


def test_the_disk_is_looked_at_now_and_then(tmp_path, monkeypatch):
    watch, seen = DiskWatch(tmp_path), []
    monkeypatch.setattr(watch, "seen", seen.append)
    for now in (1.0, 1.0 + EVERY_S / 2, 1.0 + EVERY_S, 2.0 + EVERY_S):
        watch.turn(now)
    assert len(seen) == 2
    assert 0 < seen[0].free <= seen[0].total
    assert seen[0].total == free_space(tmp_path).total


def test_a_directory_that_is_gone_is_no_failure_of_the_broker(tmp_path):
    with capture_logs() as lines:
        DiskWatch(tmp_path / "gone").turn(1.0)
    assert [line["event"] for line in lines] == ["disk_unknown"]
    assert free_bytes(tmp_path / "gone") == 0
