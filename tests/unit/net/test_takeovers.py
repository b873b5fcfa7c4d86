"""Ids that change hands: one line a minute, and a pace for those that never stop."""

import pytest

from penstock.net.takeovers import FREE, IDS_MAX, PER_SECOND, Takeovers


class Bench:
    """Records lines, with a settable clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.lines: list[tuple[str, int]] = []
        self.takeovers = Takeovers(self, lambda: self.now)

    def warning(self, _event: str, *, client_id: str, count: int, **_values: object) -> None:
        self.lines.append((client_id, count))


def test_an_id_has_one_line_a_minute_with_the_count():
    bench = Bench()
    for _ in range(7):
        bench.takeovers.note(b"twin", "peer")
    bench.takeovers.note(b"other", "peer")
    assert bench.lines == [("twin", 1), ("other", 1)]
    bench.now += 30
    bench.takeovers.turn(bench.now)
    assert len(bench.lines) == 2
    bench.now += 31
    bench.takeovers.turn(bench.now)
    assert bench.lines[2:] == [("twin", 6)]


def test_the_first_take_overs_are_free_and_then_a_newcomer_waits_a_little():
    bench = Bench()
    for _ in range(FREE):
        assert bench.takeovers.delay_s(b"twin") == 0
        bench.takeovers.note(b"twin", "peer")
    assert bench.takeovers.delay_s(b"twin") == pytest.approx(1 / PER_SECOND)
    assert bench.takeovers.delay_s(b"other") == 0
    bench.now += 1 / PER_SECOND
    assert bench.takeovers.delay_s(b"twin") == 0


def test_so_many_ids_are_remembered_and_those_at_rest_are_not():
    bench = Bench()
    for number in range(IDS_MAX + 5):
        bench.takeovers.note(b"%d" % number, "peer")
    assert len(bench.takeovers._tokens) == IDS_MAX
    bench.now += 61
    bench.takeovers.turn(bench.now)
    assert not bench.takeovers._tokens
    assert not bench.takeovers._lines._pending


def test_what_was_not_told_of_one_is_told_when_it_is_forgotten(monkeypatch):
    monkeypatch.setattr("penstock.obs.summarized_log.KEYS_MAX", 2)
    bench = Bench()
    for client_id in (b"first", b"first", b"first", b"second", b"third"):
        bench.takeovers.note(client_id, "peer")
    assert bench.lines == [("first", 1), ("second", 1), ("first", 2), ("third", 1)]
