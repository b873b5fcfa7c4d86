"""Lines typed by hand, split as redis-server 7.0.15 splits them."""

import pytest

from penstock.wire.resp.inline import split

LINES = [
    (b"", []),
    (b" \t\r", []),
    (b" PING ", [b"PING"]),
    (b"ECHO\ta", [b"ECHO", b"a"]),
    (b"PING\rx", [b"PING", b"x"]),
    (b'ECHO ""', [b"ECHO", b""]),
    (b"ECHO ''", [b"ECHO", b""]),
    (b'""', [b""]),
    (b'PING "a b"', [b"PING", b"a b"]),
    (rb'ECHO "a\n\r\t\b\a\x41\q\x4g\""', [b"ECHO", b'a\n\r\t\b\aAqx4g"']),
    (rb'ECHO "\x4"', [b"ECHO", b"x4"]),
    (rb'ECHO "\xAf\\"', [b"ECHO", b"\xaf\\"]),
    (rb"ECHO 'a\'b\n'", [b"ECHO", rb"a'b\n"]),
    (b'ECHO a"b c"', [b"ECHO", b"ab c"]),
    (b"ECHO a'b c'", [b"ECHO", b"ab c"]),
    (rb"ECHO a\ b", [b"ECHO", b"a\\", b"b"]),
    (b"ECHO a\x0bb", [b"ECHO", b"a\x0bb"]),
    (b"ECHO \x0ba", [b"ECHO", b"a"]),
    (b'ECHO "a"\x0bb', [b"ECHO", b"a", b"b"]),
    (b"ECHO \xa0a", [b"ECHO", b"\xa0a"]),
    (b'ECHO "a"b', None),
    (b'ECHO "a', None),
    (b"ECHO 'a", None),
    (b"ECHO 'a'b", None),
    (b"ECHO a'b c'd", None),
    (b'GET "a""b"', None),
    (b'ECHO "\\', None),
    (rb'ECHO "a\"', None),
    (rb"ECHO 'a\\'", None),
]


@pytest.mark.parametrize(("line", "arguments"), LINES)
def test_a_line_is_split_as_redis_does(line, arguments):
    assert split(line) == arguments


@pytest.mark.parametrize(
    "line", [b'"' + b"\\" * 65_535, b"'" + b"\\" * 65_535, b"x" * 65_535 + b'"']
)
def test_quotes_that_do_not_close_cost_no_more_than_others(line):
    """Checked by the time-out of the suite: backtracking would take years."""
    assert split(line) is None
