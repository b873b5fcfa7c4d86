"""Reader threads give way to the event loop."""

from penstock.api.reading import pace
from penstock.api.reading.pace import PAUSE_S, TURN_S, paced


def test_a_reader_pauses_once_in_each_turn(monkeypatch):
    now, pauses = [0.0], []
    monkeypatch.setattr(pace, "monotonic", lambda: now[0])
    monkeypatch.setattr(pace, "sleep", pauses.append)

    def items():
        for number in range(100):
            now[0] += TURN_S / 10
            yield number

    assert list(paced(items())) == list(range(100))
    assert 8 <= len(pauses) <= 10
    assert set(pauses) == {PAUSE_S}
