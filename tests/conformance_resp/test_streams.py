"""Scripts of stream commands, sent to Redis and to Penstock: both must answer the same.

A script names the entry that its n-th XADD added as ``{n}``, from 0, since ids differ, and the time
in its id as ``{n.ms}``. Answers are
compared as values, once in RESP 2 and once in RESP 3. What differs by design is normalised first
(``_plain``); docs/clients/streams.md lists it.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
import redis

from penstock.testing import Broker

MADE = """
XADD s * a 1
XADD s * a 2 b 3
XADD s * c 4
XADD s * c 5
XADD s * c 6
"""
"""A stream of five."""

GROUP = MADE + "XGROUP CREATE s g 0\n"
TAKEN = (
    GROUP + "XREADGROUP GROUP g c1 COUNT 2 STREAMS s >\nXREADGROUP GROUP g c2 COUNT 1 STREAMS s >\n"
)
"""Two entries with one consumer, one with another, two not handed out."""

SCRIPTS = {
    "adding": """
        XADD s * a
        XADD s * a 1 b
        XADD s NOMKSTREAM * a 1
        XLEN s
        XADD s * a 1
        XADD s NOMKSTREAM * a 1
        XLEN s
        XADD s * payload x
        XADD s * payload x other y
        XADD s * other y payload x
        XADD s * payload x payload y
        XADD s * a 1 a 2
        XRANGE s - +
        """,
    "an id that is none": """
        XADD s foo a 1
        XADD s - a 1
        XADD s + a 1
        XADD s 1-x a 1
        XADD s MAXLEN 5 a b
        XADD s 99999999999999999999-1 a 1
        """,
    "adding and trimming": MADE
    + """
        XADD s MAXLEN 3 * d 1
        XLEN s
        XADD s MAXLEN = 2 * d 2
        XADD s MINID {6} * d 3
        XRANGE s - +
        XADD s MAXLEN 0 * d 4
        XLEN s
        XADD s MAXLEN ~ 100 * d 5
        XADD s MAXLEN ~ 100 LIMIT 5 * d 5
        XLEN s
        """,
    "options of XADD that are wrong": """
        XADD s MAXLEN x * a 1
        XADD s MAXLEN -1 * a 1
        XADD s MAXLEN = 100 LIMIT 5 * a 1
        XADD s MAXLEN ~ 100 LIMIT x * a 1
        XADD s MAXLEN ~ 100 LIMIT -1 * a 1
        XADD s LIMIT 1 * a 1
        XADD s MAXLEN 5 MINID 5 * a 1
        XADD s MAXLEN 5 MAXLEN 5 * a 1
        XADD s MINID foo * a 1
        XADD s MAXLEN = * a b
        XADD s MAXLEN 5
        XLEN s
        """,
    "ranges": MADE
    + """
        XRANGE s - +
        XRANGE s {1} {3}
        XRANGE s ({1} {3}
        XRANGE s {1} ({3}
        XRANGE s ({1} ({2}
        XRANGE s {3} {1}
        XRANGE s + -
        XRANGE s - + COUNT 2
        XRANGE s - + COUNT 2 COUNT 1
        XRANGE s - + COUNT 0
        XRANGE s - + COUNT -1
        XRANGE s 0 18446744073709551615-18446744073709551615
        XRANGE s (0-0 +
        XRANGE s 99999999999999 +
        XRANGE s - 5
        XREVRANGE s + -
        XREVRANGE s {3} {1}
        XREVRANGE s ({3} {1} COUNT 1
        XREVRANGE s - +
        XREVRANGE nokey + -
        XRANGE nokey - +
        XLEN nokey
        """,
    "ranges that are wrong": MADE
    + """
        XRANGE s foo +
        XRANGE s (- +
        XRANGE s - (+
        XRANGE s $ +
        XRANGE s 1- +
        XRANGE s -1 +
        XRANGE s 18446744073709551616 +
        XRANGE s - + COUNT x
        XRANGE s - + COUNT
        XRANGE s - + FOO 1
        XRANGE nokey foo bar
        XRANGE s -
        """,
    "reading": MADE
    + """
        XREAD STREAMS s 0
        XREAD STREAMS s 0-0
        XREAD STREAMS s {2}
        XREAD STREAMS s {4}
        XREAD STREAMS s $
        XREAD COUNT 2 STREAMS s {0}
        XREAD COUNT 0 STREAMS s {2}
        XREAD COUNT -1 STREAMS s {2}
        XREAD BLOCK 1 STREAMS s $
        XREAD BLOCK 1 COUNT 1 STREAMS s 0
        XREAD STREAMS nokey 0
        XADD t * x y
        XREAD COUNT 1 STREAMS s t 0 0
        XREAD STREAMS nokey t {4} 0
        XREAD STREAMS s s {3} {2}
        xread streams s {3}
        """,
    "reads that are wrong": MADE
    + """
        XREAD STREAMS s >
        XREAD STREAMS s foo
        XREAD STREAMS s +
        XREAD STREAMS s -
        XREAD STREAMS s
        XREAD STREAMS s t 0
        XREAD COUNT x STREAMS s 0
        XREAD BLOCK x STREAMS s 0
        XREAD BLOCK -1 STREAMS s 0
        XREAD BLOCK 1.5 STREAMS s 0
        XREAD NOACK STREAMS s 0
        XREAD GROUP g c STREAMS s 0
        XREAD FOO 1 STREAMS s 0
        XREAD COUNT 1 foo
        XREAD COUNT 1 STREAMS
        XREAD COUNT 1 BLOCK 1
        """,
    "deleting": MADE
    + """
        XDEL s {1} {1} {3} 99-99
        XLEN s
        XRANGE s - +
        XREVRANGE s + - COUNT 2
        XREAD STREAMS s {0}
        XDEL s {1}
        XDEL s foo
        XDEL s
        XDEL nokey foo
        XDEL s {0} {2} {4}
        XLEN s
        XRANGE s - +
        XINFO STREAM s
        """,
    "trimming": MADE
    + """
        XTRIM s MAXLEN 9
        XTRIM s MAXLEN 4
        XTRIM s MAXLEN = 4
        XTRIM s MAXLEN ~ 2
        XTRIM s MAXLEN ~ 2 LIMIT 0
        XRANGE s - +
        XDEL s {2}
        XTRIM s MAXLEN 2
        XRANGE s - +
        XTRIM s MINID {4}
        XRANGE s - +
        XTRIM s MINID 0
        XTRIM s MINID 99999999999999
        XLEN s
        XTRIM nokey MAXLEN 1
        """,
    "ids with another time": MADE
    + """
        XTRIM s MINID 1-5
        XTRIM s MINID ~ 1-5
        XRANGE s {3.ms}-0 +
        XRANGE s - {2.ms}-99
        XRANGE s ({1.ms}-99 ({4.ms}-0
        XRANGE s 1-3 1-4
        XRANGE s 99999999999999-1 +
        XREVRANGE s {2.ms}-99 -
        XREVRANGE s + {3.ms}-0
        XREAD STREAMS s {2.ms}-99
        XREAD STREAMS s 1-3
        XREAD STREAMS s 99999999999999-1
        XREAD BLOCK 1 STREAMS s 99999999999999-1
        XGROUP CREATE s g {2.ms}-99
        XREADGROUP GROUP g c STREAMS s >
        XGROUP SETID s g 1-4
        XREADGROUP GROUP g c STREAMS s >
        XREADGROUP GROUP g c STREAMS s {2.ms}-99
        XREADGROUP GROUP g c STREAMS s 1-4
        XPENDING s g 1-3 {1.ms}-99 10
        XPENDING s g {1.ms}-99 + 10
        XACK s g 1-0 1-1 1-2 1-3 1-4 1-18446744073709551615
        XCLAIM s g d 0 1-0 1-3 {1.ms}-77
        XCLAIM s g d 0 1-1 FORCE
        XCLAIM s g d 0 {0} LASTID 1-99
        XAUTOCLAIM s g d 0 {3.ms}-0
        XPENDING s g - + 10
        XDEL s 1-0 {1.ms}-77 1-18446744073709551615
        XACK s g {0} {3}
        XTRIM s MINID {2.ms}-0
        XRANGE s - +
        XADD s MINID 1-99 * d 1
        XLEN s
        XADD s MINID {4.ms}-0 * d 1
        XLEN s
        """,
    "trimming everything, about": MADE
    + """
        XTRIM s MAXLEN ~ 1
        XTRIM s MAXLEN ~ 0 LIMIT 3
        XLEN s
        XTRIM s MAXLEN ~ 0
        XLEN s
        XADD s * a 1
        XTRIM s MINID ~ 99999999999999
        XLEN s
        XADD s * a 1
        XADD s MAXLEN ~ 0 * a 2
        XLEN s
        """,
    "moving a group to an end": GROUP
    + """
        XGROUP SETID s g +
        XREADGROUP GROUP g c STREAMS s >
        XGROUP SETID s g -
        XREADGROUP GROUP g c COUNT 1 STREAMS s >
        XGROUP CREATE s h -
        XGROUP CREATE s h +
        """,
    "trims that are wrong": MADE
    + """
        XTRIM s MAXLEN
        XTRIM s FOO 3
        XTRIM s MAXLEN 3 LIMIT 4
        XTRIM s MINID foo
        XTRIM nokey MAXLEN x
        XTRIM s MAXLEN -1
        XTRIM s MAXLEN 3 FOO
        XTRIM s MAXLEN 3 MINID 4
        XTRIM s LIMIT 5
        XTRIM s LIMIT 5 LIMIT 5
        XTRIM s MINID
        """,
    "making groups": MADE
    + """
        XGROUP CREATE nokey g 0
        XGROUP CREATE nokey g foo
        XGROUP CREATE mk g $ MKSTREAM
        XGROUP CREATE s g 0
        XGROUP CREATE s g 0
        XGROUP CREATE s g2 foo
        XGROUP CREATE s g2 >
        XGROUP CREATE s g2 -
        XGROUP CREATE s g2 0 BAR
        XGROUP CREATE s g2 0 ENTRIESREAD
        XGROUP CREATE s g2 0 ENTRIESREAD x
        XGROUP CREATE s g2 0 ENTRIESREAD -5
        XGROUP CREATE s g2 {2} ENTRIESREAD 3
        XGROUP CREATE s g3 $
        XGROUP CREATE s
        XREADGROUP GROUP g2 c STREAMS s >
        XREADGROUP GROUP g3 c STREAMS s >
        XLEN mk
        XINFO STREAM mk
        XINFO GROUPS mk
        XADD mk * a 1
        XREADGROUP GROUP g c STREAMS mk >
        XGROUP FOO s
        XGROUP
        """,
    "moving and destroying groups": TAKEN
    + """
        XGROUP SETID s g {1}
        XREADGROUP GROUP g c2 COUNT 2 STREAMS s >
        XPENDING s g - + 10
        XGROUP SETID s g $
        XREADGROUP GROUP g c2 STREAMS s >
        XGROUP SETID s g 0 MKSTREAM
        XGROUP SETID s g foo
        XGROUP SETID s nog 0
        XGROUP SETID nokey g 0
        XGROUP DESTROY s nog
        XGROUP DESTROY nokey g
        XGROUP DESTROY s g
        XGROUP DESTROY s g
        XGROUP DESTROY s
        XREADGROUP GROUP g c2 STREAMS s >
        XGROUP CREATE s g {3}
        XPENDING s g
        XREADGROUP GROUP g c2 STREAMS s >
        """,
    "consumers": TAKEN
    + """
        XGROUP CREATECONSUMER s g c3
        XGROUP CREATECONSUMER s g c3
        XGROUP CREATECONSUMER s nog c3
        XGROUP CREATECONSUMER nokey g c3
        XGROUP CREATECONSUMER s g
        XINFO CONSUMERS s g
        XGROUP DELCONSUMER s g c1
        XGROUP DELCONSUMER s g c1
        XGROUP DELCONSUMER s nog c1
        XGROUP DELCONSUMER nokey g c1
        XINFO CONSUMERS s g
        XPENDING s g
        XPENDING s g - + 10
        """,
    "reading as a group": GROUP
    + """
        XREADGROUP GROUP g c1 COUNT 2 STREAMS s >
        XREADGROUP GROUP g c2 COUNT 1 STREAMS s >
        XREADGROUP GROUP g c1 STREAMS s 0
        XREADGROUP GROUP g c1 STREAMS s {0}
        XREADGROUP GROUP g c1 COUNT 1 STREAMS s 0
        XREADGROUP GROUP g c3 STREAMS s 0
        XINFO CONSUMERS s g
        XREADGROUP GROUP g c1 STREAMS s >
        XREADGROUP GROUP g c1 STREAMS s >
        XREADGROUP GROUP g c1 BLOCK 1 STREAMS s >
        XREADGROUP GROUP g c4 STREAMS s >
        XINFO CONSUMERS s g
        XPENDING s g - + 10
        XADD t * x y
        XGROUP CREATE t g 0
        XADD s * x y
        XREADGROUP GROUP g c1 STREAMS s t > >
        XREADGROUP GROUP g c1 BLOCK 1 STREAMS s t > >
        XREADGROUP GROUP g c1 BLOCK 1 STREAMS s t 0 >
        XREADGROUP GROUP g c1 STREAMS s t {4} 0
        """,
    "reading without acknowledging": GROUP
    + """
        XREADGROUP GROUP g c1 NOACK COUNT 2 STREAMS s >
        XPENDING s g
        XREADGROUP GROUP g c1 COUNT 1 STREAMS s >
        XGROUP SETID s g 0
        XREADGROUP GROUP g c2 NOACK STREAMS s >
        XPENDING s g - + 10
        XREADGROUP GROUP g c1 NOACK STREAMS s 0
        """,
    "group reads that are wrong": GROUP
    + """
        XREADGROUP GROUP nog c STREAMS s >
        XREADGROUP GROUP g c STREAMS nokey >
        XREADGROUP GROUP g c STREAMS s nokey > >
        XREADGROUP GROUP g c STREAMS s $
        XREADGROUP GROUP g c STREAMS s +
        XREADGROUP GROUP g c STREAMS s foo
        XREADGROUP COUNT 1 STREAMS s 0 0 0
        XREADGROUP STREAMS s 0 0 0 0
        XREADGROUP GROUP g c COUNT 1 s >
        XREADGROUP GROUP g c
        """,
    "entries that are gone": TAKEN
    + """
        XDEL s {1} {3}
        XREADGROUP GROUP g c1 STREAMS s 0
        XPENDING s g - + 10
        XREADGROUP GROUP g c3 STREAMS s >
        XPENDING s g - + 10
        XCLAIM s g c3 0 {0} {1}
        XPENDING s g - + 10
        XACK s g {0}
        XTRIM s MAXLEN 1
        XAUTOCLAIM s g c4 0 0
        XPENDING s g - + 10
        """,
    "acknowledging": TAKEN
    + """
        XACK s g {0}
        XACK s g {0}
        XACK s g {0} {1} {1} {2} 99-99
        XPENDING s g
        XACK s nog {0}
        XACK nokey g foo
        XACK s g foo
        XACK s g
        """,
    "what is pending": TAKEN
    + """
        XPENDING s g
        XPENDING s g - + 10
        XPENDING s g - + 1
        XPENDING s g {1} + 10
        XPENDING s g ({1} + 10
        XPENDING s g - {1} 10
        XPENDING s g - ({1} 10
        XPENDING s g - + 10 c1
        XPENDING s g - + 10 nobody
        XPENDING s g - + 0
        XPENDING s g - + -1
        XPENDING s g IDLE 0 - + 10
        XPENDING s g IDLE 99999 - + 10
        XPENDING s g IDLE x - + 10
        XPENDING s g IDLE 10
        XPENDING s g - +
        XPENDING s g a + 10
        XPENDING s g - + x
        XPENDING s nog
        XPENDING nokey g
        XPENDING s
        """,
    "claiming": TAKEN
    + """
        XCLAIM s g c2 0 {0} {2}
        XPENDING s g - + 10
        XCLAIM s g c3 99999 {0}
        XCLAIM s g c3 0 {1} JUSTID
        XPENDING s g - + 10
        XCLAIM s g c9 0 99-99
        XCLAIM s g c9 0 {4}
        XINFO CONSUMERS s g
        XCLAIM s g c3 0 {4} FORCE
        XCLAIM s g c3 0 {3} FORCE JUSTID
        XCLAIM s g c3 0 99-99 FORCE
        XPENDING s g - + 10
        XCLAIM s g c3 0 {0} RETRYCOUNT 7
        XCLAIM s g c3 0 {1} RETRYCOUNT 0 JUSTID
        XCLAIM s g c3 0 {2} IDLE 0
        XCLAIM s g c3 0 {2} TIME 0
        XPENDING s g - + 10
        XREADGROUP GROUP g c1 STREAMS s >
        """,
    "claiming with a last id": TAKEN
    + """
        XCLAIM s g c2 0 {0} LASTID {3}
        XREADGROUP GROUP g c2 STREAMS s >
        XCLAIM s g c2 0 {0} LASTID {1} JUSTID
        XREADGROUP GROUP g c2 STREAMS s >
        """,
    "claims that are wrong": TAKEN
    + """
        XCLAIM s nog c 0 {0}
        XCLAIM nokey g c 0 {0}
        XCLAIM s g c x {0}
        XCLAIM s g c -1 {0}
        XCLAIM s g c 0 foo
        XCLAIM s g c 0 {0} FOO
        XCLAIM s g c 0 {0} IDLE x
        XCLAIM s g c 0 {0} IDLE
        XCLAIM s g c 0 {0} TIME x
        XCLAIM s g c 0 {0} RETRYCOUNT x
        XCLAIM s g c 0 {0} RETRYCOUNT -1
        XCLAIM s g c 0 {0} LASTID foo
        XCLAIM s g c 0 JUSTID
        XCLAIM s g
        XPENDING s g - + 10
        """,
    "claiming what is idle": TAKEN
    + """
        XAUTOCLAIM s g c3 99999 0
        XAUTOCLAIM s g c3 0 0 COUNT 2
        XAUTOCLAIM s g c3 0 {1} COUNT 1
        XAUTOCLAIM s g c4 0 ({0} JUSTID
        XAUTOCLAIM s g c4 0 -
        XAUTOCLAIM s g c4 0 +
        XPENDING s g - + 10
        XAUTOCLAIM s g c4 x 0
        XAUTOCLAIM s g c4 0 foo
        XAUTOCLAIM s g c4 0 0 COUNT 0
        XAUTOCLAIM s g c4 0 0 COUNT x
        XAUTOCLAIM s g c4 0 0 COUNT 99999999999999999
        XAUTOCLAIM s g c4 0 0 FOO
        XAUTOCLAIM s nog c4 0 0
        XAUTOCLAIM nokey g c4 0 0
        XAUTOCLAIM s g c4 0
        """,
    "information": TAKEN
    + """
        XINFO STREAM s
        XINFO STREAM s FULL
        XINFO STREAM s FULL COUNT 1
        XINFO STREAM s full count 0
        XINFO STREAM s FULL COUNT -1
        XINFO STREAM s FULL COUNT x
        XINFO STREAM s FULL COUNT
        XINFO STREAM s FOO
        XINFO STREAM nokey
        XINFO GROUPS s
        XINFO GROUPS nokey
        XINFO GROUPS s x
        XINFO CONSUMERS s g
        XINFO CONSUMERS s nog
        XINFO CONSUMERS nokey g
        XINFO CONSUMERS s
        XINFO FOO s
        XINFO STREAM
        XINFO
        """,
}

KEYS = {"s", "t", "mk", "nokey"}
ID = re.compile(rb"\d+-\d+")

numbers = count()


@pytest.fixture(scope="session")
def broker():
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("name", SCRIPTS)
def test_both_answer_a_script_alike(name: str, protocol: int, redis_port: int, broker: Broker):
    suffix = f"-{next(numbers)}"
    redis_answers = _run(redis_port, SCRIPTS[name], suffix, protocol, _let_time_pass)
    penstock_answers = _run(
        broker.port, SCRIPTS[name], suffix, protocol, lambda: broker.clock.advance(0.002)
    )
    assert penstock_answers == redis_answers


class Added:
    """The entries that a script has added."""

    def __init__(self) -> None:
        self.ids: list[bytes] = []
        self._names: dict[bytes, bytes] = {}
        self._counts: Counter[str] = Counter()

    def note(self, key: str, entry_id: bytes) -> None:
        self.ids.append(entry_id)
        self._names[entry_id] = b"{%d}" % self._counts[key]
        self._counts[key] += 1

    def name(self, entry_id: bytes) -> bytes:
        """Its place in its stream. The time of an entry that is gone is not known to Penstock."""
        if entry_id.startswith(b"0-") and entry_id != b"0-0":
            return b"{%b}" % entry_id.removeprefix(b"0-")
        return self._names.get(entry_id, entry_id)


def _run(
    port: int, script: str, suffix: str, protocol: int, let_time_pass: Callable[[], None]
) -> list[tuple[str, Any]]:
    """Return each line with its answer."""
    connection = redis.Connection(port=port, protocol=protocol)
    added = Added()
    answers = []
    try:
        for line in filter(None, map(str.strip, script.split("\n"))):
            words = [word + suffix if word in KEYS else word for word in line.split()]
            command = [_filled(word, added.ids) for word in words]
            if words[0] == "XADD":
                let_time_pass()
            answer = _ask(connection, command)
            if words[0] == "XADD" and isinstance(answer, bytes):
                added.note(words[1], answer)
            answers.append((line, _plain(answer, added, words[0])))
    finally:
        connection.disconnect()
    return answers


def _let_time_pass() -> None:
    """Wait for the next millisecond: Redis must not give entries of two streams the same id."""
    now_ms = time.time_ns() // 10**6
    while time.time_ns() // 10**6 == now_ms:
        pass


def _ask(connection: redis.Connection, command: list[str]) -> Any:
    connection.send_command(*command)
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        return f"error: {error}"


def _filled(word: str, added: list[bytes]) -> str:
    def fill(match: re.Match[str]) -> str:
        name = added[int(match[1])].decode()
        return name.partition("-")[0] if match[2] else name

    return re.sub(r"\{(\d+)(\.ms)?\}", fill, word)


def _plain(answer: Any, added: Added, command: str) -> Any:
    """An answer without what must differ: ids, times, and a few numbers that only Redis has."""
    match answer:
        case bytes():
            return ID.sub(lambda match: added.name(match[0]), answer)
        case int() if answer > 10**12:
            return "a time"
        case [bytes(), bytes(), int(), int()] if command == "XPENDING":
            return [_plain(answer[0], added, command), answer[1], "idle", answer[3]]
        case list():
            pairs = zip([None, *answer], answer, strict=False)
            return [_masked(name, _plain(item, added, command)) for name, item in pairs]
        case dict():
            return {
                name: _masked(name, _plain(item, added, command)) for name, item in answer.items()
            }
        case _:
            return answer


def _masked(name: Any, item: Any) -> Any:
    masked = (b"entries-read", b"max-deleted-entry-id", b"idle", b"last-generated-id")
    return "masked" if isinstance(name, bytes) and name in masked else item
