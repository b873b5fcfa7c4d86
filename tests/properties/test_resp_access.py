"""Whatever a Redis client sends, it neither sees nor changes topics that its user may not."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.testing import Broker
from tests.access import LOGIN_REQUIRED, SECRET
from tests.conformance_resp.wire import array, ask

COMMANDS = [
    "XADD",
    "XREAD",
    "XREADGROUP",
    "XRANGE",
    "XREVRANGE",
    "XLEN",
    "XACK",
    "XCLAIM",
    "XAUTOCLAIM",
    "XPENDING",
    "XTRIM",
    "XDEL",
    "XGROUP",
    "XINFO",
    "PUSH",
    "PULL",
    "PUBLISH",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "DEL",
    "EXISTS",
    "EXPIRE",
    "PERSIST",
    "TYPE",
]
WORDS = [
    "own/1",
    "other/1",
    "q:other",
    "other",
    "GROUP",
    "g",
    "c",
    "STREAMS",
    "COUNT",
    "1",
    "BLOCK",
    "NOACK",
    ">",
    "$",
    "0-0",
    "*",
    "+",
    "-",
    "MAXLEN",
    "MINID",
    "~",
    "=",
    "LIMIT",
    "NOMKSTREAM",
    "MKSTREAM",
    "WITHACK",
    "CREATE",
    "DESTROY",
    "SETID",
    "CREATECONSUMER",
    "STREAM",
    "FULL",
    "JUSTID",
    "FORCE",
    "a",
]
PLANTED = b"planted-payload"

commands = st.tuples(
    st.sampled_from(COMMANDS), st.lists(st.sampled_from(WORDS), min_size=1, max_size=10)
).map(lambda drawn: [drawn[0], *drawn[1]])


@pytest.fixture(scope="module")
def broker():
    """A broker whose user may do everything with own/# and nothing with the rest."""
    with Broker(auth=LOGIN_REQUIRED) as own:
        own.add_user("root", SECRET, roles=["admin"])
        rules = ["allow publish,subscribe,read,work,manage own/#"]
        own.add_user("client", SECRET, rules=rules)
        planted = PLANTED.decode()
        ask(
            own.port, f"AUTH root {SECRET}", f"XADD other/1 * a {planted}", f"PUSH other {planted}",
            "XADD own/1 * a b", "XGROUP CREATE other/1 g 0 MKSTREAM", "XGROUP CREATE own/1 g 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS other/1 >",
        )  # fmt: skip
        yield own


def _foreign(broker):
    """All that there is of topics that are not the user's own; the audit log notes what it does."""
    parts = broker.server.parts
    known = (b"own/", b"$audit/")
    topics = [info for info in parts.store.topics() if not info.name.startswith(known)]
    groups = [
        (group.topic, group.name, group.next, sorted(group.pending), sorted(group.consumers))
        for group in parts.broker.groups
        if not group.topic.startswith(b"own/")
    ]
    subscribed = [one for one in parts.broker.routes.filters() if not one.startswith(b"own/")]
    return topics, groups, subscribed


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(commands, st.booleans())
@example(["XREADGROUP", "GROUP", "STREAMS", "own/1", "STREAMS", "other/1", ">"], False)
@example(["XADD", "own/1", "MAXLEN", "1", "*", "a", "STREAMS", "other/1"], True)
@example(["PULL", "own/1", "GROUP", "g", "GROUP", "g"], False)
@example(["PULL", "other"], False)
@example(["XREAD", "STREAMS", "STREAMS", "other/1", "0-0", "0-0"], False)
def test_no_command_line_reaches_topics_of_others(broker, command, is_queued):
    before = broker.call(_foreign, broker)
    line = array(*(word.encode() for word in command))
    lines = (b"*1\r\n$5\r\nMULTI\r\n", line, b"*1\r\n$4\r\nEXEC\r\n") if is_queued else (line,)
    answer = ask(broker.port, f"AUTH client {SECRET}", *lines)
    assert answer.startswith(b"+OK\r\n")
    assert PLANTED not in answer
    assert broker.call(_foreign, broker) == before
