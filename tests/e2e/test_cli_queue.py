"""``penstock queue``, ``groups`` and ``dlq`` against a real broker."""

import json
import subprocess
import sys
from datetime import datetime

import pytest
from click.testing import CliRunner

from penstock.cli import dlq as dlq_module
from penstock.cli import penstock
from penstock.client import connect
from penstock.testing import Broker
from tests.conformance.wire_client import wait_until


class Kit:
    """A broker, a client of it, and the command line."""

    def __init__(self, broker, client):
        self.broker, self.client = broker, client
        self.where = ["--server", f"127.0.0.1:{broker.port}"]

    def run(self, *words, **options):
        """Run ``penstock GROUP COMMAND ...`` and return the result."""
        return CliRunner().invoke(penstock, [*words[:2], *self.where, *words[2:]], **options)

    def say(self, *words, **options):
        """The same for a command that must succeed: return its output."""
        result = self.run(*words, **options)
        assert result.exit_code == 0, result.output
        return result.stdout

    def ask(self, *words):
        """The same, with ``--json``: return the document."""
        return json.loads(self.say(*words, "--json"))

    def bury(self, count, topic="mail", group="send"):
        """Let messages become dead letters."""
        self.client.create_group(topic, group)
        self.client.configure_group(topic, group, max_deliveries=1)
        self.client.produce_many(topic, [b"letter %d" % number for number in range(count)])
        self.client.nack(self.client.poll(topic, group, max=count), reason="no paper")
        wait_until(lambda: self.letters(topic, group) == count)

    def letters(self, topic="mail", group="send"):
        """Return the number of letters."""
        rows = self.ask("dlq", "list")
        return sum(r["letters"] for r in rows if (r["topic"], r["group"]) == (topic, group))


@pytest.fixture
def kit():
    with Broker() as broker, connect([f"127.0.0.1:{broker.port}"]) as client:
        yield Kit(broker, client)


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def seconds_between(time, later):
    return (datetime.fromisoformat(later) - datetime.fromisoformat(time)).total_seconds()


# ── queue


def test_a_queue_is_made_changed_shown_and_deleted(kit):
    kit.say("queue", "create", "mail/out", "--rate", "0.5", "--max-age", "90d")
    kit.say("queue", "set", "mail/out", "--burst", "3", "--max-bytes", "64MiB", "--keep")
    topic = kit.client.topic("mail/out")
    assert (topic.rate_per_sec, topic.burst, topic.keep) == (0.5, 3, True)
    assert (topic.max_age_ms, topic.max_bytes) == (90 * 86_400_000, 64 << 20)
    assert "none; the next is 0" in kit.say("queue", "show", "mail/out")
    kit.client.produce_many("mail/out", [b"a", b"b"])
    shown = kit.say("queue", "show", "mail/out")
    assert "0 to 1" in shown
    assert "0.5/s, burst 3" in shown
    assert "90d, 64MiB, keeps finished messages" in shown
    kit.say("queue", "delete", "mail/out", "--yes")
    assert kit.client.topic("mail/out") is None


def test_queues_are_listed_as_a_table_or_as_json(kit):
    kit.client.produce_many("mail", [b"a", b"b"])
    kit.say("queue", "create", "post", "--max-messages", "1000")
    lines = kit.say("queue", "list").splitlines()
    assert [cells(line) for line in lines] == [
        ["TOPIC", "TO DO", "STORED", "GROUPS", "RATE", "LIMITS"],
        ["mail", "2", "2", "0", "-", "-"],
        ["post", "0", "0", "0", "-", "1,000 messages"],
    ]
    assert [row["topic"] for row in kit.ask("queue", "list", "--prefix", "po")] == ["post"]


def test_what_is_done_and_still_on_disk_is_listed_as_stored(kit):
    kit.client.produce_many("mail", [b"a", b"b"])
    kit.client.ack(kit.client.poll("mail", "send"))
    kit.client.produce("mail", b"c")
    (listed,) = kit.ask("queue", "list")
    assert (listed["messages"], listed["stored"]) == (1, 3)


def test_an_empty_list_says_what_to_do(kit):
    assert "queue create" in kit.say("queue", "list")
    assert "groups create" in kit.say("groups", "list")
    assert "no dead letters" in kit.say("dlq", "list")


def test_a_slip_does_not_make_a_queue(kit):
    result = kit.run("queue", "set", "mial", "--rate", "1")
    assert result.exit_code == 1
    assert "there is no topic 'mial'" in result.stderr
    assert kit.ask("queue", "list") == []


def test_a_slip_does_not_make_a_group(kit):
    kit.client.produce("mail", b"x")
    result = kit.run("groups", "set", "mail", "sned", "--max-deliveries", "1")
    assert result.exit_code == 1
    assert "there is no group 'sned'" in result.stderr
    assert kit.client.groups("mail") == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["queue", "set", "mail"], "nothing to change"),
        (["queue", "create", "mail", "--max-age", "90"], "with a unit"),
        (["queue", "create", "mail", "--max-bytes", "64MB"], "a size such as"),
        (["queue", "push", "mail", "x", "--header", "trace"], "NAME=VALUE"),
        (["groups", "set", "mail", "send"], "nothing to change"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_happens(kit, words, why):
    result = kit.run(*words)
    assert result.exit_code == 2
    assert why in result.stderr
    assert kit.ask("queue", "list") == []


def test_nothing_is_deleted_unless_the_user_is_sure(kit):
    kit.client.produce("mail", b"x")
    result = kit.run("queue", "delete", "mail", input="n\n")
    assert result.exit_code == 1
    assert "Delete mail with 1 message and 0 groups?" in result.stderr
    assert kit.client.topic("mail").messages == 1


def test_a_message_is_pushed_with_its_settings(kit):
    words = ["--priority", "5", "--delay", "1h", "--ttl", "2h", "--header", "trace=7=8"]
    answer = kit.ask("queue", "push", "mail", "hello", *words)
    assert answer == {"topic": "mail", "pushed": 1, "last_offset": 0}
    (record,) = kit.client.messages("mail")
    assert (record.payload, record.priority) == (b"hello", 5)
    assert record.headers == (("trace", b"7=8"),)
    assert (record.due_ms - record.ts_ms, record.expires_ms - record.ts_ms) == (
        3_600_000,
        7_200_000,
    )


def test_each_payload_is_pushed_as_a_message_whatever_its_bytes(kit):
    words = ["queue", "push", "mail", "one", "", "a b", "\udcff", "--", "-5"]
    assert kit.say(*words) == "pushed 5 messages to mail\n"
    payloads = [record.payload for record in kit.client.messages("mail")]
    assert payloads == [b"one", b"", b"a b", b"\xff", b"-5"]


def test_lines_are_pushed_one_message_each(kit):
    words = [sys.executable, "-m", "penstock", "queue", "push", "mail", *kit.where]
    lines = b"".join(b"line %d\n" % number for number in range(3_000)) + b"last"
    done = subprocess.run(words, input=lines, capture_output=True, timeout=60, check=True)
    assert done.stdout == b"pushed 3,001 messages to mail\n"
    payloads = [record.payload for record in kit.client.messages("mail")]
    assert payloads == lines.split(b"\n")


def test_peeking_shows_messages_and_takes_none(kit):
    kit.client.produce_many("mail", [b"one", b"two", b"\xff\n", b"four"])
    lines = kit.say("queue", "peek", "mail", "-n", "2").splitlines()
    assert [cells(line)[0] for line in lines] == ["OFFSET", "2", "3"]
    assert lines[1].endswith("(not text)")
    (first,) = kit.ask("queue", "peek", "mail", "-n", "1", "--offset", "0")
    assert (first["offset"], first["payload"]) == (0, "one")
    assert kit.ask("queue", "peek", "mail", "--offset", "2")[0]["payload_base64"] == "/wo="
    assert "no messages" in kit.say("queue", "peek", "mail", "--offset", "9")
    assert len(kit.client.poll("mail", "send")) == 4


def test_peeking_shows_what_few_messages_have_where_one_has_it(kit):
    kit.client.produce("mail", b"plain")
    assert cells(kit.say("queue", "peek", "mail").splitlines()[0]) == [
        *("OFFSET", "TIME", "PRIORITY", "TYPE", "PAYLOAD"),
    ]
    headers = {"trace": b"7", "to": b"ann\n"}
    kit.client.produce(
        "mail", b"{}", content_type="json", delay_s=3_600, ttl_s=7_200, headers=headers
    )
    plain, rich = kit.ask("queue", "peek", "mail")
    assert not plain.keys() & {"not_before", "not_after", "headers"}
    assert (plain["content_type"], rich["content_type"]) == ("raw", "json")
    assert seconds_between(rich["time"], rich["not_before"]) == 3_600
    assert seconds_between(rich["time"], rich["not_after"]) == 7_200
    head, plain, rich = map(cells, kit.say("queue", "peek", "mail").splitlines())
    assert head[3:] == ["TYPE", "NOT BEFORE", "NOT AFTER", "HEADERS", "PAYLOAD"]
    assert plain[3:] == ["raw", "-", "-", "-", "plain"]
    assert rich[6:] == ["trace=7 to=ann\\n", "{}"]


def test_peeking_where_nothing_is_says_so(kit):
    result = kit.run("queue", "peek", "mial")
    assert result.exit_code == 1
    assert "there is no topic 'mial'" in result.stderr


# ── groups


def test_a_reader_of_a_fleet_is_one_line_with_its_sums(kit):
    for number in range(3):
        kit.client.produce_many(f"fleet/{number}", [b"x"] * (number + 1))
        kit.client.create_group(f"fleet/{number}", "archive", reader=True)
        kit.client.create_group(f"fleet/{number}", "work")
    kit.client.create_group("fleet/2", "once", reader=True)
    rows = [line.split() for line in kit.say("groups", "list").splitlines()[1:]]
    assert [row for row in rows if "archive" in row] == [
        ["(3", "topics)", "archive", "6", "0", "s", "0", "0", "0", "reader"]
    ]
    assert [row[0] for row in rows if "work" in row] == ["fleet/0", "fleet/1", "fleet/2"]
    assert [row[0] for row in rows if "once" in row] == ["fleet/2"]
    every = kit.say("groups", "list", "--each").splitlines()[1:]
    assert len(every) == len(kit.ask("groups", "list")) == 7


def test_groups_are_listed_with_what_they_have_not_done(kit):
    kit.client.produce_many("mail", [b"x"] * 5)
    kit.client.nack(kit.client.poll("mail", "send", max=2), delay_s=60)
    kit.client.poll("mail", "send", max=1)
    kit.client.create_group("mail", "archive", start="latest")
    lines = kit.say("groups", "list", "mail").splitlines()
    assert [cells(line) for line in lines] == [
        ["TOPIC", "GROUP", "LAG", "OLDEST", "IN FLIGHT", "RETRYING", "DEAD", "WORKERS"],
        ["mail", "archive", "0", "-", "0", "0", "0", "0"],
        ["mail", "send", "5", "0 s", "1", "2", "0", "0"],
    ]
    shown = kit.say("groups", "show", "mail", "send")
    assert "5" in shown
    assert "5 wait, and no worker is connected: start one" in shown


def test_a_group_is_made_steered_moved_and_deleted(kit):
    kit.say("queue", "create", "mail", "--keep")
    kit.client.produce_many("mail", [b"x"] * 5)
    kit.say("groups", "create", "mail", "send", "--from", "3", "--max-deliveries", "5")
    shown = kit.say("groups", "set", "mail", "send", "--backoff", "500ms", "--backoff-max", "1m")
    assert "5, then dead-lettered" in shown
    assert "500ms, doubled each time up to 1m" in shown
    (group,) = kit.client.groups("mail")
    assert (group.position, group.max_deliveries, group.backoff_ms) == (3, 5, 500)
    assert kit.ask("groups", "seek", "mail", "send", "earliest", "--yes")["position"] == 0
    assert kit.ask("groups", "seek", "mail", "send", "4", "--yes")["position"] == 4
    assert kit.ask("groups", "seek", "mail", "send", "2001-01-01", "--yes")["position"] == 0
    assert kit.ask("groups", "seek", "mail", "send", "latest", "--yes")["lag"] == 0
    kit.say("groups", "delete", "mail", "send", "--yes")
    assert kit.client.groups("mail") == []


def test_a_group_may_be_made_before_its_topic_and_misses_nothing(kit):
    kit.say("groups", "create", "mail", "send", "--from", "latest")
    kit.client.produce("mail", b"x")
    assert [job.payload for job in kit.client.poll("mail", "send")] == [b"x"]


def test_a_longest_pause_below_the_first_is_refused(kit):
    words = ["groups", "create", "mail", "send", "--backoff", "5s", "--backoff-max", "500ms"]
    result = kit.run(*words)
    assert result.exit_code == 1
    assert "backoff_max, 500ms, is less than backoff, 5s" in result.stderr
    assert kit.client.groups("mail") == []


@pytest.mark.parametrize(
    "words", [["groups", "seek", "mail", "send", "4"], ["groups", "delete", "mail", "send"]]
)
def test_a_group_stays_unless_the_user_is_sure(kit, words):
    kit.client.produce_many("mail", [b"x"] * 5)
    kit.client.create_group("mail", "send")
    assert kit.run(*words, input="n\n").exit_code == 1
    assert kit.client.groups("mail")[0].position == 0


def test_a_place_that_is_none_is_refused_with_examples(kit):
    kit.client.produce("mail", b"x")
    result = kit.run("groups", "create", "mail", "send", "--from", "soon")
    assert result.exit_code == 1
    assert "2030-01-01T00:00:00Z" in result.stderr


def test_a_group_with_consumers_is_not_deleted(kit):
    kit.client.produce("mail", b"x")
    with kit.client.subscribe("mail", "send", lambda job: None):
        wait_until(lambda: [g.consumers for g in kit.client.groups("mail")] == [1])
        result = kit.run("groups", "delete", "mail", "send", "--yes")
    assert result.exit_code == 1
    assert "stop them first" in result.stderr


# ── dlq


def test_dead_letters_are_listed_and_tell_their_story(kit):
    kit.bury(3)
    head, row = (cells(line) for line in kit.say("dlq", "list").splitlines())
    assert head == ["TOPIC", "GROUP", "LETTERS", "OLDEST", "MOSTLY"]
    assert [*row[:3], row[4]] == ["mail", "send", "3", "no paper"]
    lines = kit.say("dlq", "show", "mail", "send", "-n", "2").splitlines()
    assert cells(lines[1])[2:] == ["1", "no paper", "letter 0"]
    assert lines[3:] == ["... 3 in total"]
    document = kit.ask("dlq", "show", "mail", "send", "--offset", "2")
    assert [letter["payload"] for letter in document["items"]] == [{"text": "letter 2"}]


def test_what_has_failed_too_often_by_a_new_limit_is_a_dead_letter_at_once(kit):
    kit.client.produce("mail", b"x")
    kit.client.nack(kit.client.poll("mail", "send"), delay_s=3_600)
    kit.say("groups", "set", "mail", "send", "--max-deliveries", "1")
    wait_until(lambda: kit.letters() == 1)


def test_dead_letters_are_sent_back_in_steps(kit, monkeypatch):
    monkeypatch.setattr(dlq_module, "REDRIVEN_AT_ONCE", 2)
    kit.bury(5)
    answer = kit.ask("dlq", "redrive", "mail", "send", "--max", "3")
    assert answer == {"topic": "mail", "group": "send", "redriven": 3, "left": 2}
    assert kit.say("dlq", "redrive", "mail", "send") == "sent 2 letters back to mail; 0 left\n"
    assert "no dead letters" in kit.say("dlq", "redrive", "mail", "send")
    payloads = [job.payload for job in kit.client.poll("mail", "send")]
    assert payloads == [b"letter %d" % number for number in range(5)]


@pytest.mark.parametrize("command", ["redrive", "drop", "show"])
def test_letters_of_a_group_that_is_not_there_are_an_error(kit, command):
    result = kit.run("dlq", command, "mial", "send")
    assert result.exit_code == 1
    assert "there is no topic 'mial'" in result.stderr


def test_letters_that_outlast_their_topic_can_be_sent_back(kit):
    kit.bury(1)
    kit.client.delete_topic("mail")
    assert kit.ask("dlq", "redrive", "mail", "send")["redriven"] == 1
    assert kit.client.topic("mail").messages == 1


def test_dead_letters_are_dropped_when_the_user_is_sure(kit):
    kit.bury(2)
    refused = kit.run("dlq", "drop", "mail", "send", input="n\n")
    assert "Drop 2 dead letters of send of mail?" in refused.stderr
    assert kit.letters() == 2
    assert kit.say("dlq", "drop", "mail", "send", "--yes") == "dropped 2 dead letters\n"
    assert kit.letters() == 0
    assert kit.say("dlq", "drop", "mail", "send") == "dropped 0 dead letters\n"


def test_what_was_steered_survives_a_restart(kit):
    kit.say("queue", "create", "mail", "--rate", "7", "--max-messages", "9")
    kit.say("groups", "create", "mail", "send", "--max-deliveries", "4")
    kit.broker.restart(kill=True)
    (topic,) = kit.ask("queue", "list")
    assert (topic["rate_per_s"], topic["max_messages"], topic["groups"]) == (7.0, 9, 1)
    assert kit.ask("groups", "show", "mail", "send")["max_deliveries"] == 4


def test_without_a_broker_the_error_says_what_to_do():
    words = ["queue", "list", "--server", "127.0.0.1:1"]
    result = CliRunner().invoke(penstock, words)
    assert result.exit_code == 1
    assert "penstock serve" in result.stderr
