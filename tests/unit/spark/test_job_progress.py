"""What Spark reports becomes what is shown. The reports are of a real run of ``rollup``."""

import io
import json
from pathlib import Path

import msgspec
import pytest

from penstock.spark.pipelines.lateness import checkpoint_watermark
from penstock.spark.pipelines.progress import (
    JsonLines,
    LiveTable,
    PlainLines,
    QueryTotals,
    batch_of,
    display,
    lag_of,
    line,
)

RECORDED = [
    json.loads(text)
    for text in Path(__file__).with_name("recorded_progress.jsonl").read_text().splitlines()
]
BATCHES = [batch_of(progress) for progress in RECORDED]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def source(end, latest):
    as_offset = {"v": 1, "plan": {}, "topics": end}
    return {"endOffset": as_offset, "latestOffset": {"v": 1, "plan": {}, "topics": latest}}


def test_a_report_is_read():
    first = BATCHES[0]
    assert (first.query, first.batch, first.rows, first.lag) == ("rollup-parquet", 0, 2, (1,))
    assert first.watermark is None
    assert BATCHES[1].watermark == "2023-11-14T22:13:30.000Z"
    assert [batch.state_rows for batch in BATCHES] == [1, 2, 1, 2]
    assert first.observed == {"payloads": {"messages": 2, "bad": 0, "untimed": 0}}
    assert first.duration_ms == RECORDED[0]["durationMs"]["triggerExecution"]


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ({"a": [1, 5, 0]}, {"a": [1, 5, 0]}, 0),
        ({"a": [1, 5, 0]}, {"a": [1, 9, 0], "b": [2, 7, 4]}, 4 + 3),
        ({"a": [1, 5, 0]}, {"a": [3, 2, 0]}, 2),
        ({"a": [1, 9, 0]}, {"a": [1, 5, 0]}, 0),
    ],
    ids=["none", "a new topic", "a topic made anew", "more was read than was known"],
)
def test_the_lag_is_what_there_was_beyond_the_end_of_the_batch(end, latest, lag):
    assert lag_of(source(end, latest)) == lag


@pytest.mark.parametrize("offset", [None, {"logOffset": 3}, "12", "no JSON", '{"topics": 1}'])
def test_a_source_of_another_kind_tells_no_lag(offset):
    assert lag_of({"endOffset": offset, "latestOffset": offset}) is None


def test_offsets_may_come_as_text():
    asked = source({"a": [1, 5, 0]}, {"a": [1, 9, 0]})
    assert lag_of({name: json.dumps(offset) for name, offset in asked.items()}) == 4


def test_a_rate_that_is_no_number_is_none():
    for rate in (None, "NaN", float("inf")):
        assert batch_of({**RECORDED[0], "processedRowsPerSecond": rate}).rows_per_s == 0


def test_a_query_without_a_name_goes_by_its_id():
    batch = batch_of({**RECORDED[0], "name": None, "id": "0123456789abcdef"})
    assert batch.query == "01234567"


def test_a_log_has_a_line_for_each_batch_with_rows():
    stream = io.StringIO()
    shown = PlainLines(stream)
    for batch in BATCHES:
        shown.show(batch)
    lines = stream.getvalue().splitlines()
    assert len(lines) == sum(batch.rows > 0 for batch in BATCHES) == 3
    assert lines[0].startswith("rollup-parquet batch 0: 2 rows in ")
    assert ", lag 1, state 1 rows" in lines[0]


def test_programs_get_every_report_as_json():
    stream = io.StringIO()
    for batch in BATCHES:
        JsonLines(stream).show(batch)
    told = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [each["batch"] for each in told] == [0, 1, 2, 3]
    assert told[0]["lag"] == [1]


def test_a_terminal_has_a_line_per_query_with_all_its_rows():
    stream = Terminal()
    with LiveTable(stream) as table:
        for batch in BATCHES:
            table.show(batch)
        table.say({"slice": 3})
    assert "rollup-parquet" in stream.getvalue()
    assert "slice 3" in stream.getvalue()


def test_a_tally_keeps_the_speed_of_the_last_batch_that_had_rows():
    tally = QueryTotals()
    tally.add(BATCHES[0])
    tally.add(msgspec.structs.replace(BATCHES[1], rows_per_s=1234.5))
    tally.add(BATCHES[2])
    assert BATCHES[2].rows == 0
    batch, rows, speed, lag, state, late, untimed, watermark, took = tally.cells()
    assert (batch, rows, speed) == ("2", "3", "1,234")
    assert (lag, state, late, untimed) == ("0", "1", "0", "0")
    assert watermark == "2023-11-14 22:14:21.000"
    assert took == f"{BATCHES[2].duration_ms:,} ms"


def test_rows_that_came_too_late_are_shown():
    state = [{**RECORDED[0]["stateOperators"][0], "numRowsDroppedByWatermark": 7}]
    assert "too late 7" in line(batch_of({**RECORDED[0], "stateOperators": state}))


def test_late_rows_are_counted_before_they_are_combined():
    """Spark counts one for each topic and window; the reading that is in time is not late."""
    state = [{**RECORDED[0]["stateOperators"][0], "numRowsDroppedByWatermark": 2}]
    windows = {"ends": [{"x": 60_000, "y": 40.0}, {"x": 120_000, "y": 3.0}, {"x": 180_000, "y": 1}]}
    progress = {**RECORDED[0], "stateOperators": state, "observedMetrics": {"windows": windows}}
    assert batch_of(progress, 120_000).late_rows == 43
    assert batch_of(progress, 119_999).late_rows == 40
    assert batch_of(progress).late_rows == 2  # the watermark is not known
    assert batch_of(progress, 120_000).observed == {}
    in_time = {**progress, "stateOperators": RECORDED[0]["stateOperators"]}
    assert batch_of(in_time, 120_000).late_rows == 0


def test_rows_without_a_time_are_shown():
    figures = {"payloads": {"messages": 9, "bad": 0, "untimed": 4}}
    batch = batch_of({**RECORDED[0], "observedMetrics": figures})
    assert "untimed 4" in line(batch)
    tally = QueryTotals()
    tally.add(batch)
    tally.add(batch)
    assert tally.cells()[6] == "8"


def test_the_watermark_of_a_batch_is_in_the_checkpoint(tmp_path):
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":1700,"conf":{}}\n{}')
    assert checkpoint_watermark(str(tmp_path), 7) == 1700
    assert checkpoint_watermark(f"file://{tmp_path}", 7) == 1700
    assert checkpoint_watermark(str(tmp_path), 6) is None
    assert checkpoint_watermark("hdfs://nowhere/c", 7) is None


def test_how_it_is_shown_depends_on_who_looks():
    assert isinstance(display(io.StringIO(), as_json=False), PlainLines)
    assert isinstance(display(Terminal(), as_json=False), LiveTable)
    assert isinstance(display(Terminal(), as_json=True), JsonLines)
