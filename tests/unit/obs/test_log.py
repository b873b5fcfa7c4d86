"""Log lines are one line, bounded, without secrets, and few."""

import io
import json
import secrets

import pytest
import structlog

from penstock.obs.log import VALUE_CHARACTERS_MAX, Throttle, ThrottledLogger, configure, get_logger
from penstock.obs.printable import on_one_line, printable
from penstock.obs.reasons import DisconnectReason


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _as_before():
    """Also "not configured" is restored: what others do about their logs depends on it."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    if before is None:
        structlog.reset_defaults()
    else:
        structlog.configure(**before)


@pytest.fixture
def stream():
    stream = io.StringIO()
    configure("info", "json", stream)
    return stream


def fail_with(password):
    assert password
    raise RuntimeError


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# ── Lines


def test_a_line_has_its_event_values_level_logger_and_time(stream):
    get_logger("net").warning("connection_closed", bytes=7)
    (line,) = lines(stream)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "connection_closed", "bytes": 7, "level": "warning", "logger": "net"}


def test_lines_below_the_level_are_left_out(stream):
    get_logger("net").debug("detail")
    assert not stream.getvalue()


def test_auto_is_json_where_nobody_looks_and_text_on_a_terminal():
    file, terminal = io.StringIO(), Terminal()
    for stream in (file, terminal):
        configure("info", "auto", stream)
        get_logger("net").info("started")
    assert json.loads(file.getvalue())["event"] == "started"
    assert not terminal.getvalue().startswith("{")
    assert "\x1b[" in terminal.getvalue()


def test_console_can_be_asked_for_without_a_terminal_and_is_without_colours():
    stream = io.StringIO()
    configure("info", "console", stream)
    get_logger("net").info("started", port=1883)
    assert "port=1883" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_an_unknown_level_is_refused():
    with pytest.raises(KeyError):
        configure("loud", "json")


def test_a_reason_is_logged_by_its_value(stream):
    get_logger("net").info("connection_closed", reason=DisconnectReason.SLOW_READER)
    assert lines(stream)[0]["reason"] == "slow_reader"


@pytest.mark.parametrize("format_", ["json", "console"])
def test_text_of_a_client_can_not_forge_a_line(format_):
    stream = io.StringIO()
    configure("info", format_, stream)
    get_logger("net").info("connected", client="a\nevent=forged\x1b[2J")
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("detail", [r"topic a\nb: bad", "a\\nb", r"it's \x1b"])
def test_what_was_made_printable_is_not_escaped_again(detail):
    r"""``printable`` has escaped a client's text; a second time, ``\n`` would be shown as ``\\n``."""
    for format_ in ("json", "console"):
        stream = io.StringIO()
        configure("info", format_, stream)
        get_logger("net").info("disconnected", detail=detail)
        line = stream.getvalue()
        assert detail in (json.loads(line)["detail"] if format_ == "json" else line)


def test_quotes_of_a_client_do_not_end_a_value_on_the_console():
    stream = io.StringIO()
    configure("info", "console", stream)
    get_logger("net").info("disconnected", detail=printable("""x" y' reason=forged"""))
    assert r"""detail='x" y\' reason=forged'""" in stream.getvalue()


def test_long_values_are_cut(stream):
    get_logger("net").info("connected", client=b"x" * 100_000)
    assert len(lines(stream)[0]["client"]) == VALUE_CHARACTERS_MAX


def test_secrets_are_not_written(stream):
    get_logger("net").info("connected", password=b"hunter2", payload="hunter2")
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize("format_", ["json", "console"])
def test_a_traceback_is_shown_without_local_variables(format_):
    stream = Terminal()
    configure("info", format_, stream)
    password = secrets.token_hex()
    try:
        fail_with(password)
    except RuntimeError:
        get_logger("net").exception("failed")
    assert "RuntimeError" in stream.getvalue()
    assert "test_log.py" in stream.getvalue()
    assert password not in stream.getvalue()


def test_a_stream_that_is_gone_is_no_error(stream):
    stream.close()
    get_logger("net").info("unheard")


# ── Text of strangers


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"pump-7", "pump-7"),
        ("größe", "größe"),
        ("größe".encode(), "größe"),
        (b"a\nb", r"a\nb"),
        (b"\x1b[31m", r"\x1b[31m"),
        (b"\xff\x00", r"\xff\x00"),
        ("a\\b", r"a\\b"),
        ("\u202etxt", r"\u202etxt"),
        ("\ud800", r"\ud800"),
        (b"", ""),
    ],
)
def test_printable_escapes_what_does_not_print(text, shown):
    assert printable(text) == shown


def test_on_one_line_differs_in_backslashes_alone():
    assert on_one_line("a\\b\nc\x1b", 64) == r"a\b\nc\x1b"
    assert on_one_line(b"\\" * 65, 64) == "\\" * 63 + "…"


def test_printable_leaves_text_of_the_limit_alone_and_cuts_one_more():
    assert printable("x" * 64) == "x" * 64
    assert printable("x" * 65) == "x" * 63 + "…"
    assert printable(b"\0" * 65, limit=10) == r"\x00\x00" + "…"


@pytest.mark.parametrize("text", ["€" * 1_000, "€".encode() * 1_000, b"\xe2" * 1_000])
def test_printable_is_bounded_whatever_the_encoding(text):
    assert len(printable(text, limit=20)) <= 20


# ── The flood guard


def test_a_throttle_admits_so_many_lines_per_second():
    throttle = Throttle(lines_per_second_max=3)
    assert [throttle.admit("kind", now=0.1 * i) for i in range(5)] == [True] * 3 + [False] * 2
    assert throttle.admit("kind", now=1.0)


def test_kinds_are_throttled_apart():
    throttle = Throttle(lines_per_second_max=1)
    assert throttle.admit("one", now=0.0)
    assert not throttle.admit("one", now=0.0)
    assert throttle.admit("other", now=0.0)


def test_what_was_held_back_is_told_once_and_when_the_second_is_over():
    throttle = Throttle(lines_per_second_max=1)
    for _ in range(4):
        throttle.admit("kind", now=0.0)
    assert throttle.take_suppressed(now=0.9) == {}
    assert throttle.take_suppressed(now=1.0) == {"kind": 3}
    assert throttle.take_suppressed(now=2.0) == {}


def test_a_flood_becomes_a_few_lines_and_a_count(stream):
    now = 0.0
    logger = ThrottledLogger(get_logger("net"), Throttle(2), clock=lambda: now)
    for _ in range(1_000):
        logger.info("connection_closed", reason="malformed_packet")
    now = 1.0
    logger.info("connection_closed", reason="malformed_packet")
    shown = [(line["event"], line.get("suppressed")) for line in lines(stream)]
    assert shown == [
        ("connection_closed", None),
        ("connection_closed", None),
        ("lines_suppressed", 998),
        ("connection_closed", None),
    ]


def test_the_end_of_a_flood_is_told_by_flush(stream):
    now = 0.0
    logger = ThrottledLogger(get_logger("net"), Throttle(1), clock=lambda: now)
    logger.warning("bad", kind="bad.utf8")
    logger.warning("bad", kind="bad.utf8")
    now = 1.0
    logger.flush()
    assert lines(stream)[-1].items() >= {"kind": "bad.utf8", "suppressed": 1}.items()
