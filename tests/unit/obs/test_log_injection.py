"""What clients choose stays within one bounded line of the log."""

import io
import json

import pytest

from penstock.obs.log import configure, get_logger
from penstock.obs.printable import printable

HOSTILE = [
    'x\n{"event": "started", "level": "info"}',
    "\x1b[2J\x1b]0;owned\x07",
    "\r\n\x00\x7f\x85\u2028\u2029\u202e",
    "ann" * 10_000,
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("style", ["json", "console"])
def test_a_client_id_user_or_topic_makes_one_bounded_printable_line(text, style):
    stream = io.StringIO()
    configure("info", style, stream)
    try:
        get_logger("net").info(
            "refused", client_id=printable(text), user=text, topic=text.encode(), detail=text
        )
    finally:
        configure("info", "auto")
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert written.endswith("\n")
    assert len(written) < 4_096
    assert all(c.isprintable() for c in written[:-1])
    if style == "json":
        assert json.loads(written)["event"] == "refused"
