"""``top``, ``clients``, ``sessions``, ``retained``: looking at a broker and putting things right."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import PublishProperties
from penstock.client import connect as connect_to_queues
from penstock.client.errors import ConnectionLostError
from penstock.client.mqtt.client import connect
from tests.conformance.wire_client import wait_until
from tests.e2e.process import TIMEOUT_S

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def run(broker, *arguments):
    command = [PENSTOCK, *arguments, "-p", str(broker.port)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(broker, *arguments):
    command = [PENSTOCK, *arguments, "-p", str(broker.port)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 1, done.stdout
    return done.stderr


def until_listed(broker, *arguments):
    """A DISCONNECT is not answered."""
    wait_until(lambda: json.loads(run(broker, *arguments, "--json"))["items"])


def test_clients_are_listed_and_kicked(start):
    broker = start()
    with connect(broker.host, broker.port, "pump-7") as client:
        assert "pump-7" in run(broker, "clients")
        assert "pump-7" in run(broker, "clients", "pump")
        assert "pump-7" in run(broker, "clients", "list", "pump")
        assert "1 connection" in run(broker, "clients", "kick", "pump-7", "-y")
        with pytest.raises(ConnectionLostError):
            client.receive(timeout_s=TIMEOUT_S)
    assert "no clients are connected" in run(broker, "clients")


def test_sessions_are_listed_and_ended(start):
    broker = start()
    with connect(broker.host, broker.port, "pump-7", clean_session=False) as client:
        client.subscribe([("plant/#", 1)])
    with connect(broker.host, broker.port) as client:
        client.publish("plant/1", b"x", 1)
    listed = json.loads(run(broker, "sessions", "list", "--away", "--backlog", "--json"))
    assert [(one["client_id"], one["queued"]) for one in listed["items"]] == [("pump-7", 1)]
    assert "1 subscription and 1 message" in run(broker, "sessions", "end", "pump-7", "--dry-run")
    assert "pump-7" in run(broker, "sessions", "list")
    run(broker, "sessions", "end", "pump-7", "-y")
    assert json.loads(run(broker, "sessions", "list", "--json"))["items"] == []


def test_retained_messages_are_listed_cleared_and_retained_again(start):
    broker = start()
    with connect(broker.host, broker.port) as client:
        for number in range(30):
            client.publish(f"plant/{number:02}", b"4.2", 1, retain=True)
    assert "... and more" in run(broker, "retained", "list", "--limit", "7")
    assert "plant/03" in run(broker, "retained", "list", "plant/+")
    assert "and 10 more" in run(broker, "retained", "clear", "plant/#", "--dry-run")
    cleared = json.loads(run(broker, "retained", "clear", "plant/#", "-y", "--json"))
    assert "nothing is retained" in run(broker, "retained", "list")
    assert "retained 30 messages again" in run(broker, "retained", "undo", cleared["undo"])
    assert len(json.loads(run(broker, "retained", "list", "--json"))["items"]) == 30


def test_a_client_and_its_session_are_shown_with_their_subscriptions(start):
    broker = start()
    with connect(broker.host, broker.port, "pump-7", clean_session=False) as client:
        client.subscribe([("plant/#", 1), ("$share/work/jobs", 0)])
        shown = run(broker, "clients", "show", "pump-7")
        assert f"node {json.loads(run(broker, 'status', '--json'))['cluster']['node']}" in shown
        assert "plant/#" in shown
        found = json.loads(run(broker, "clients", "show", "pump-7", "--json"))
        assert [one["away"] for one in found["connections"]] == [False]
        assert {one["filter"] for one in found["subscriptions"]} == {"plant/#", "jobs"}
        assert "connected" in run(broker, "sessions", "show", "pump-7")
    until_listed(broker, "sessions", "list", "--away")
    shown = run(broker, "sessions", "show", "pump-7")
    assert "away since" in shown
    assert "plant/#" in shown
    assert "no session" in refusal(broker, "sessions", "show", "pump")
    assert "neither connected nor away" in refusal(broker, "clients", "show", "pump")


def test_topics_are_shown_by_level_and_by_traffic_and_deleted(start):
    broker = start()
    with connect(broker.host, broker.port) as client:
        for number in range(3):
            client.publish(f"plant/p{number}/temp", b"71.%d" % number, 1)
        client.subscribe([("plant/+/temp", 1)])
        shown = run(broker, "topics", "show", "plant/p1/temp")
    assert "1, 4 bytes, offsets 0 to 0" in shown
    assert "1 subscribed" in shown
    assert "plant/" in run(broker, "topics", "tree")
    assert "71.2" in run(broker, "topics", "tree", "plant/p2")
    assert "plant/p0/temp" in run(broker, "topics", "busiest")
    assert "with 1 message" in run(broker, "topics", "delete", "plant/p0/temp", "--dry-run")
    run(broker, "topics", "delete", "plant/p0/temp", "-y")
    listed = json.loads(run(broker, "topics", "list", "plant/#", "--json"))
    assert [one["name"] for one in listed["items"]] == ["plant/p1/temp", "plant/p2/temp"]
    assert "there is no topic" in refusal(broker, "topics", "delete", "plant/p0/temp", "-y")


def test_a_retained_message_is_shown_with_its_headers(start):
    broker = start()
    headers = PublishProperties(user_properties=[("site", "north")])
    with connect(broker.host, broker.port) as client:
        client.publish("plant/1", b"4.2", 1, retain=True, properties=headers)
    shown = run(broker, "retained", "show", "plant/1")
    assert "site: north" in shown
    assert "3 bytes: 4.2" in shown
    assert "no retained message" in refusal(broker, "retained", "show", "plant/2")


@pytest.mark.parametrize("noun", ["clients", "sessions", "topics", "retained"])
def test_a_noun_alone_lists_and_all_lists_are_alike_in_json(start, noun):
    broker = start()
    with connect(broker.host, broker.port, "pump-7", clean_session=False) as client:
        client.publish("pump-7/1", b"x", 1, retain=True)
        mine = "pump-7/1" if noun == "retained" else "pump-7"  # the broker has topics of its own
        alone, by_verb = (run(broker, noun, *verb, mine, "--json") for verb in ((), ("list",)))
        assert list(json.loads(alone)) == ["items", "more", "incomplete"]
        assert len(json.loads(by_verb)["items"]) == 1


@pytest.mark.parametrize(
    "noun", ["groups", "queue", "dlq", "keys", "users", "roles", "tokens", "bans", "schedule"]
)
def test_a_noun_alone_lists_what_there_is(start, noun):
    broker = start()
    assert run(broker, noun) == run(broker, noun, "list")
    assert json.loads(run(broker, noun, "--json")) == json.loads(
        run(broker, noun, "list", "--json")
    )


def test_readers_are_listed_with_how_far_they_are_behind(start):
    broker = start()
    assert "nobody reads by a name" in run(broker, "spark", "readers")
    with connect_to_queues([f"{broker.host}:{broker.port}"]) as client:
        client.produce_many("sales", [b"1", b"2", b"3"])
        client.create_group("sales", "by-hour", reader=True)
    head, row = (line.split("  ") for line in run(broker, "spark", "readers").splitlines())
    assert [cell.strip() for cell in head if cell.strip()][:3] == ["READER", "TOPIC", "LAG"]
    assert [cell.strip() for cell in row if cell.strip()][:3] == ["by-hour", "sales", "3"]
    (listed,) = json.loads(run(broker, "spark", "readers", "--json"))["items"]
    assert (listed["lag"], listed["position"]) == (3, 0)


def offered(broker, *words):
    """What a shell is offered that completes the last word, as bash asks."""
    line = ["penstock", *words[:-1], "-p", str(broker.port), words[-1]]
    asked = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(line)}
    done = subprocess.run(
        [PENSTOCK],
        env=os.environ | asked | {"COMP_CWORD": str(len(line) - 1)},
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]


def test_a_shell_is_offered_names_that_the_broker_knows(start):
    broker = start()
    with connect(broker.host, broker.port, "pump-7", clean_session=False) as client:
        for topic in ("plant/1", "plant/2", "plant/$(reboot)", "plant/a b", "mail"):
            client.publish(topic, b"x", 1)
        run(broker, "groups", "create", "mail", "send")
        run(broker, "schedule", "create", "nightly", "mail", "x", "--cron", "@daily")
        for words, names in (
            (("topics", "show", "pl"), ["plant/1", "plant/2"]),
            (("clients", "kick", "pu"), ["pump-7"]),
            (("sessions", "show", "pu"), ["pump-7"]),
            (("groups", "show", "mail", ""), ["send"]),
            (("schedule", "cancel", ""), ["nightly"]),
        ):
            while not (found := offered(broker, *words)):
                pass  # a broker that takes longer than 300 ms to answer is not waited for
            assert found == names
    broker.stop()
    assert offered(broker, "topics", "show", "pl") == []


def test_events_are_listed_and_followed(start):
    broker = start()
    connect(broker.host, broker.port, "pump-7").close()
    ended = [*("events", "--client", "pump-7", "--kind", "ended")]
    wait_until(lambda: "pump-7  client_disconnect" in run(broker, *ended))
    listed = json.loads(run(broker, "events", "--client", "pump-7", "--json"))
    assert [one["kind"] for one in listed] == ["ended", "connected"]
    words = [PENSTOCK, "events", "--follow", "--since", "60", "-p", str(broker.port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as following:
        try:
            assert "connected" in following.stdout.readline()
        finally:
            following.kill()


def test_top_prints_everything_once_where_there_is_no_terminal(start):
    broker = start()
    with connect(broker.host, broker.port, "pump-7", clean_session=False) as client:
        client.publish("plant/1", b"x", 1)
        text = run(broker, "top", "--once")
        found = json.loads(run(broker, "top", "--json"))
    assert "healthy: a single node" in text
    assert "plant/1" in text
    assert "pump-7" in text
    assert list(found) == ["overview", "topics", "clients", "groups"]


def test_top_follows_keys_and_leaves_the_terminal_as_it_was(start):
    broker = start()
    ours, theirs = pty.openpty()
    command = [PENSTOCK, "top", "-p", str(broker.port), "--interval", "0.5"]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    with (
        connect(broker.host, broker.port, "pump-7"),
        subprocess.Popen(command, stdin=theirs, stdout=theirs, env=environment) as top,
    ):
        shown = until(ours, b"BUSY TOPIC")
        assert b"\x1b[?1049h" in shown
        os.write(ours, b"c")
        until(ours, b"pump-7")
        os.write(ours, b" ")
        until(ours, b"PAUSED")
        os.write(ours, b"q")
        until(ours, b"\x1b[?1049l")
        assert top.wait(TIMEOUT_S) == 0
    os.close(ours)
    os.close(theirs)


def until(terminal, wanted):
    shown = b""
    while wanted not in shown:
        assert select.select([terminal], [], [], TIMEOUT_S)[0], shown[-500:]
        shown += os.read(terminal, 65_536)
    return shown
