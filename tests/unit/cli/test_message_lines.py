"""A message as a line of output."""

import json

from penstock.cli.message_lines import record_json
from penstock.client.queue.columns import Record


def shown(**more):
    record = Record("t", 3, b"x", 9, ts_ms=1_000, priority=0, content_type="raw", **more)
    return json.loads(record_json(record))


def test_a_line_of_json_tells_when_a_message_expires_if_it_does():
    assert shown(expires_ms=61_000)["expires"] == "1970-01-01T00:01:01.000+00:00"
    assert "expires" not in shown()
