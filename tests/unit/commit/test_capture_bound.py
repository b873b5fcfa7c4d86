"""Captured QoS 0 beside clients that wait: as much as the disk takes in a few milliseconds."""

from penstock.commit.capture_bound import BYTES_MIN, COMMIT_S, MEASURED_BYTES_MIN, CaptureBound
from penstock.limits import CAPTURE_BESIDE_WAITING_BYTES_MAX, MIB


def after(commits: int, size: int, seconds: float, bytes_max: int = 64 * MIB) -> int:
    bound = CaptureBound(bytes_max)
    for _ in range(commits):
        bound.committed(size, seconds)
    return bound.bytes


def test_before_anything_is_known_the_bound_is_the_largest():
    assert CaptureBound(64 * MIB).bytes == CAPTURE_BESIDE_WAITING_BYTES_MAX
    assert CaptureBound(1_000).bytes == 1_000


def test_it_approaches_what_the_disk_takes_in_the_time_that_others_may_wait():
    rate = 60 * MIB
    found = after(50, size=MIB, seconds=MIB / rate)
    assert abs(found - rate * COMMIT_S) < 0.01 * rate * COMMIT_S


def test_it_stays_between_its_ends():
    assert after(50, size=MIB, seconds=10.0) == BYTES_MIN
    assert after(50, size=MIB, seconds=1e-6) == CAPTURE_BESIDE_WAITING_BYTES_MAX
    assert after(50, size=MIB, seconds=10.0, bytes_max=1_000) == 1_000


def test_small_commits_say_nothing_about_the_speed():
    assert after(50, size=MEASURED_BYTES_MIN - 1, seconds=10.0) == CAPTURE_BESIDE_WAITING_BYTES_MAX
