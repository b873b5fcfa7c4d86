"""Windows hold what they should, once."""

import threading

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines.monitor import monitor
from penstock.spark.pipelines.rollup import quantile_name, readings, windows
from penstock.spark.pipelines.streams import start
from tests.spark.messages import at, frame, message, stream


def rows(found, *columns):
    return sorted(tuple(row[column] for column in columns) for row in found.collect())


def test_a_number_is_found_in_a_field_or_is_the_payload(spark):
    messages = frame(
        spark,
        message("a", 0, {"t": 21.5, "deep": {"h": "40"}}),
        message("a", 1, b"7"),
        message("a", 2, b" 8.5\n"),
    )
    of_fields = readings(messages, fields=["$.t", "$.deep.h"])
    assert rows(of_fields, "field", "value") == [("deep.h", 40.0), ("t", 21.5)]
    assert rows(readings(messages), "field", "value") == [("value", 7.0), ("value", 8.5)]


def test_what_is_no_number_is_left_out_and_never_an_error(spark):
    bad = [b"", b"{", b"\xff\xfe", b'{"t": "warm"}', b'{"t": null}', b'{"t": [1]}', b"NaN"]
    messages = frame(spark, *(message("a", 0, payload) for payload in [*bad, b'{"t": "NaN"}']))
    assert rows(readings(messages, fields=["$.t"]), "value") == []
    assert rows(readings(messages), "value") == []


def test_the_time_is_the_brokers_or_that_of_a_header_or_a_field(spark):
    ms = round(at(-30).timestamp() * 1000)
    told = message(
        "a", 0, {"v": 1, "iso": at(-30).isoformat(), "s": ms / 1000, "ms": ms}, time=f"{ms}"
    )
    untold = message("a", 5, {"v": 1})
    messages = frame(spark, told, untold)
    for where in ("header", "$.iso", "$.s", "$.ms"):
        found = readings(messages, fields=["$.v"], time=where)
        assert rows(found.selectExpr("unix_seconds(time) s"), "s") == [(at(-30).timestamp(),)], (
            where
        )
    asked = readings(messages, fields=["$.v"], time="$.ms", untimed="broker")
    assert rows(asked.selectExpr("unix_seconds(time) s"), "s") == [
        (at(-30).timestamp(),),
        (at(5).timestamp(),),
    ]
    broken = message("a", 0, {"v": 1, "iso": "noon", "ms": -5}, time="soon")
    for where in ("header", "$.iso", "$.ms"):
        assert readings(frame(spark, broken), fields=["$.v"], time=where).count() == 0, where


def test_a_time_from_the_future_does_not_move_the_watermark(spark):
    ahead = message("a", 0, {"v": 1, "at": at(3600).isoformat()})
    a_bit = message("a", 0, {"v": 2, "at": at(60).isoformat()})
    found = readings(frame(spark, ahead, a_bit), fields=["$.v"], time="$.at")
    assert rows(found, "value") == [(2.0,)]


def test_a_window_has_the_figures_of_its_messages(spark):
    values = [message("pump/1", n / 10, {"t": n}) for n in range(100)]
    other = [message("pump/1", 70, {"t": 5}), message("pump/2", 1, {"t": 9})]
    found = windows(readings(frame(spark, *values, *other), fields=["$.t"]))
    assert rows(found, "topic", "count", "min", "max", "mean") == [
        ("pump/1", 1, 5.0, 5.0, 5.0),
        ("pump/1", 100, 0.0, 99.0, 49.5),
        ("pump/2", 1, 9.0, 9.0, 9.0),
    ]
    large = found.where("count = 100").collect()[0]
    assert (large.p50, large.p95, large.p99) == (49.0, 94.0, 98.0)
    assert (large.end - large.start).total_seconds() == 60


LATER = 20_000


def taken(seconds, value):
    """A reading that says when it was taken, and came to the broker hours later."""
    return message("a", LATER, {"t": value, "at": at(seconds).isoformat()})


class Shown(list):
    show = list.append


def test_a_window_is_written_once_when_the_watermark_has_passed_it(spark, tmp_path):
    """Late within what is allowed counts; later does not; nothing is written again.

    The broker took all of it at once, hours later: a message without a time must not tell that.
    """
    batches = [
        [taken(0, 1), taken(61, 2), message("a", LATER, b"bad"), message("a", LATER, {"t": 9})],
        [taken(30, 3)],  # 31 s late
        [taken(200, 4)],  # ends the first two windows,
        [taken(201, 4)],  # which are written with the batch after
        [taken(40, 100), taken(41, 100), taken(42, 100), taken(65, 100)],  # too late
        [taken(400, 5)],
    ]
    found = windows(readings(stream(spark, tmp_path, *batches), fields=["$.t"], time="$.at"))
    writer = found.writeStream.format("memory")
    more = {"checkpoint": str(tmp_path / "c"), "trigger": "available-now"}
    query, shown = start(writer, name="rolled", **more), Shown()
    monitor([query], shown, threading.Event())
    told = rows(
        spark.table("rolled").selectExpr("count", "max", "unix_seconds(start) s"),
        "s",
        "count",
        "max",
    )
    noon = at(0).timestamp()
    assert told == [(noon, 2, 3.0), (noon + 60, 1, 2.0), (noon + 180, 2, 4.0)]
    figures = [batch.observed.get("payloads", {}) for batch in shown]
    assert sum(each.get("bad") or 0 for each in figures) == 1
    assert sum(batch.untimed_rows for batch in shown) == 2
    assert sum(batch.late_rows for batch in shown) == 4


def test_a_quantile_names_its_column():
    assert [quantile_name(q) for q in (0.5, 0.99, 0.999, 1)] == ["p50", "p99", "p99_9", "p100"]
    with pytest.raises(ConfigError, match="from 0 to 1"):
        quantile_name(95)
