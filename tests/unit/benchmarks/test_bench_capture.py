"""Every QoS 0 message is captured or counted as dropped; anything else is a flaw."""

from benchmarks.brokers import parse_metrics
from benchmarks.capture import Capture, read_capture, settled_capture
from benchmarks.rounds import unexplained

EXPOSITION = """\
# HELP penstock_captured_total Messages written to the journal.
# TYPE penstock_captured_total counter
penstock_captured_total 90.0
penstock_messages_received_total{qos="0"} 100.0
penstock_messages_received_total{qos="1"} 0.0
penstock_dropped_total{reason="capture_overflow"} 7.0
penstock_dropped_total{reason="capture_failed"} 3.0
penstock_dropped_total{reason="slow_reader"} 55.0
process_resident_memory_bytes 3.1e+07
"""


class Counting:
    """A broker whose journal catches up a little at every look."""

    def __init__(self, *captured):
        self.captured = list(captured)

    def metrics(self):
        captured = self.captured.pop(0) if len(self.captured) > 1 else self.captured[0]
        return {"penstock_messages_received_total": 100.0, "penstock_captured_total": captured}


def test_samples_are_read_with_their_labels():
    samples = parse_metrics(EXPOSITION)
    assert samples['penstock_dropped_total{reason="slow_reader"}'] == 55.0
    assert samples["process_resident_memory_bytes"] == 3.1e7
    assert len(samples) == 7


def test_only_drops_of_captures_count():
    assert read_capture(parse_metrics(EXPOSITION)) == Capture(received=100, captured=90, dropped=10)


def test_a_broker_without_a_journal_has_no_books():
    assert read_capture({}) is None
    assert unexplained(None, sent=5) == []


def test_books_that_balance_leave_nothing_open():
    books = Capture(100, 90, 10)
    assert books.balanced
    assert books.dropped_share == 0.1
    assert unexplained(books, sent=100) == []


def test_what_is_missing_is_told_by_number():
    assert unexplained(Capture(1100, 50, 10), sent=1101) == [
        "received 1,100 of 1,101 sent",
        "1,040 neither captured nor counted as dropped",
    ]


def test_the_journal_is_given_time_to_catch_up():
    assert settled_capture(Counting(10.0, 60.0, 100.0)) == Capture(100, 100, 0)


def test_a_journal_that_stands_still_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr("benchmarks.capture.PATIENCE_S", 0.0)
    assert settled_capture(Counting(10.0)) == Capture(100, 10, 0)


def test_what_the_broker_writes_of_clients_is_no_flaw_but_captures_twice_are():
    assert Capture(received=100_000, captured=100_010, dropped=0).balanced
    assert not Capture(received=100_000, captured=200_000, dropped=0).balanced
    assert not Capture(received=100_000, captured=99_999, dropped=0).balanced
