"""What ``pub``, ``sub``, ``request`` and ``respond`` do with MQTT 5, by TCP and by WebSocket."""

import contextlib
import json
import subprocess
import sys
import uuid

import pytest

from penstock.access.new_secrets import new_hashes, with_hashes
from penstock.client import PublishProperties, connect
from penstock.testing import Broker
from penstock.trust.book import put, removed
from penstock.trust.rows import Role, User
from penstock.trust.scram_verifier import ITERATIONS_MIN
from tests.unit.access.login_setup import CHEAP

SECRET = "a-secret-of-ann-0123456789"
PENSTOCK = [sys.executable, "-c", "from penstock.cli import main; main()"]


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        yield own


@pytest.fixture
def name():
    """A topic, or client id, that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["mqtt", "ws"])
def url(request, broker):
    return f"{request.param}://{broker.host}:{broker.port}"


@pytest.fixture
def client(broker):
    with connect(broker.host, broker.port) as own:
        yield own


def run(*arguments, given=b""):
    done = subprocess.run(
        [*PENSTOCK, *arguments], input=given, capture_output=True, timeout=30, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def start():
    """Start a command that subscribes, and return it once it has."""
    with contextlib.ExitStack() as stack:

        def start_command(command, topic, *arguments):
            process = stack.enter_context(
                subprocess.Popen(
                    [*PENSTOCK, command, topic, *arguments],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            assert process.stderr.readline() == f"subscribed to {topic}\n".encode()
            return process

        yield start_command


def lines_of(process, count):
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_pub_says_everything_about_a_message_and_sub_prints_it(start, url, name):
    listening = start("sub", name, "--json", "--url", url)
    told = ("-D", "unit=bar", "-D", "unit=a=b", "--content-type", "text/x", "--expiry", "90s")
    asked = ("--response-topic", "r/1", "--correlation", "hex:00ff", "--payload-format", "utf-8")
    assert run("pub", name, "4.2", *told, *asked, "--url", url) == (0, "", "")
    [line] = lines_of(listening, 1)
    assert 0 < line["properties"].pop("expiry_s") <= 90
    assert line["properties"] == {
        "content_type": "text/x",
        "response_topic": "r/1",
        "user_properties": [["unit", "bar"], ["unit", "a=b"]],
        "payload_format": 1,
        "correlation_data_base64": "AP8=",
    }


def test_line_of_sub_stays_as_it_is_and_a_plain_message_has_no_properties(
    start, client, broker, name
):
    port = ("-p", str(broker.port))
    plain, told = start("sub", name, *port), start("sub", name, "--json", *port)
    client.publish(name, b"x", properties=PublishProperties(content_type="text/x"))
    client.publish(name, b"y")
    assert [plain.stdout.readline() for _ in range(2)] == [f"{name} {x}\n".encode() for x in "xy"]
    first, second = lines_of(told, 2)
    assert first["properties"] == {"content_type": "text/x"}
    assert "properties" not in second


def test_properties_are_not_dropped_in_silence_where_there_are_none(broker, name):
    port = str(broker.port)
    status, out, err = run("pub", name, "x", "-D", "a=b", "-p", port, "--mqtt-version", "3.1.1")
    assert (status, out) == (1, "")
    assert "a message with properties: that needs MQTT 5" in err


def test_sub_begins_with_history_that_it_asks_for_once(client, url, name):
    client.publish_many([(name, b"%d" % number) for number in range(5)], 1)
    status, out, _ = run("sub", name, "--replay", "last=2", "-n", "2", "--url", url)
    assert (status, out) == (0, f"{name} 3\n{name} 4\n")


def test_replay_that_cannot_be_read_is_refused_in_words(url, name):
    status, out, err = run("sub", name, "--replay", "yesterday", "--url", url)
    assert (status, out) == (1, "")
    assert f"refused to subscribe to '{name}': " in err


def test_request_prints_what_respond_answers(start, url, name):
    responding = start("respond", name, "--json", "--url", url, "--", "tr", "a-z", "A-Z")
    assert run("request", name, "héllo", "--url", url) == (0, "HéLLO", "")
    status, out, _ = run("request", name, "-f", "-", "--json", "--url", url, given=b"\xff")
    assert (status, json.loads(out)["payload_base64"]) == (0, "/w==")
    assert [line["ok"] for line in lines_of(responding, 2)] == [True, True]
    responding.terminate()
    assert responding.wait(20) == 0


def test_command_that_fails_answers_nothing_and_the_next_request_is_served(start, broker, name):
    port = ("-p", str(broker.port))
    responding = start("respond", name, *port, "--", "sh", "-c", 'read word; [ "$word" = good ]')
    status, out, err = run("request", name, "bad", "--timeout", "1", *port)
    assert (status, out) == (1, "")
    assert "nobody has answered the request" in err
    complaint = f"penstock: {name}: the command failed with status 1\n"
    assert responding.stderr.readline() == complaint.encode()
    assert run("request", name, "good\n", *port) == (0, "", "")


def test_command_that_does_not_exist_ends_respond(start, client, broker, name):
    responding = start("respond", name, "-p", str(broker.port), "no-such-command")
    client.publish(name, b"", 1, properties=PublishProperties(response_topic="r"))
    assert responding.wait(20) == 1
    assert b"cannot run no-such-command: No such file" in responding.stderr.read()


def test_message_that_is_no_request_is_told_and_skipped(start, client, broker, name):
    responding = start("respond", name, "-p", str(broker.port), "-n", "1", "cat")
    client.publish(name, b"", 1)
    assert responding.wait(20) == 0
    assert responding.stderr.read() == f"penstock: {name}: it names no response topic\n".encode()


# ── Users


@pytest.fixture
def guarded(tmp_path):
    """A broker where ann may use her own topics; and the options to log in as her."""
    password = tmp_path / "password"
    password.write_text(SECRET)
    password.chmod(0o600)
    with Broker(auth={"scram_iterations": ITERATIONS_MIN}) as own:
        cost = CHEAP._replace(scram_iterations=ITERATIONS_MIN)
        ann = with_hashes(User("ann", ("ann",)), new_hashes("ann", SECRET, cost, bytes(24)))
        own.change_access(put(Role("ann", ("allow publish,subscribe ann/#",))), put(ann))
        yield own, ann, ("-p", str(own.port), "--user", "ann", "--password-file", str(password))


def test_scram_logs_in(guarded):
    own, _, login = guarded
    assert run("pub", "ann/x", "1", "-q", "1", "--scram", *login)[0] == 0
    assert own.metrics()['penstock_logins_accepted_total{kind="scram"}'] == 1


def test_sub_tells_a_qos_that_was_not_granted(url, name):
    shared = f"$share/g/{name}"
    status, _, err = run("sub", "--url", url, shared, "-q", "2", "--timeout", "0.1")
    assert (status, err) == (0, f"subscribed to {shared}\n{shared}: QoS 1 only\n")


def test_sub_tells_a_session_expiry_that_was_cut(url, name):
    wanted = ("-c", name, "--session-expiry", "30d", "--timeout", "0.1")
    status, _, err = run("sub", "--url", url, name, *wanted)
    cut = "the broker keeps the session for 86,400 s only"
    assert (status, err) == (0, f"subscribed to {name}\n{cut}\n")


def test_advice_adds_something_to_the_words_of_the_broker(url, name):
    _, _, err = run("pub", "--url", url, "-q", "1", "x" * 2_000, "1")
    assert err.endswith(": longer than 1024 bytes\n")
    _, _, err = run("sub", "--url", url, "$share/g", "--timeout", "5")
    assert err.endswith(": a shared subscription is $share/NAME/FILTER\n")


def test_refusals_name_what_was_refused_and_what_to_do(guarded):
    _, _, login = guarded
    status, _, err = run("pub", "bob/x", "1", "-q", "1", *login)
    assert status == 1
    assert err.startswith("penstock: the broker refused the message: ")
    assert "penstock acl check" in err
    status, _, err = run("sub", "bob/x", *login)
    assert status == 1
    assert err.startswith("penstock: the broker refused to subscribe to 'bob/x': ")


def test_sub_ends_when_its_user_is_removed(guarded, start):
    """It would be refused again."""
    own, ann, login = guarded
    listening = start("sub", "ann/#", *login)
    own.change_access(removed(ann))
    assert listening.wait(20) == 1
    assert listening.stderr.read().startswith(b"penstock: the broker closed the connection: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pub", "a", "x", "--url", "mqtt://h", "-p", "1"], "only one of --url and -h, -p"),
        (["pub", "a", "x", "--url", "http://h"], "'http://h' is no address of a broker: write"),
        (["pub", "a", "x", "--url", "ws://me:secret@h"], "an address with a user or password"),
        (["pub", "a", "x", "--url", "ws://h", "--tls"], "ws:// is without TLS: write wss://"),
        (["pub", "a", "x", "-D", "unit"], "'unit' must be NAME=VALUE"),
        (["pub", "a", "x", "--correlation", "hex:0"], "must be text, or hex:"),
        (["pub", "a", "x", "--expiry", "90"], "must be a number with a unit"),
        (["sub", "a", "--session-expiry", "1h"], "--session-expiry needs -c"),
        (["sub", "a", "--replay", "last=1", "--from", "1"], "only one of --replay, --from and"),
        (["sub", "a", "--from", "1", "--url", "ws://h"], "which a WebSocket cannot"),
        (["request", "a/+", "x"], "wildcard in a topic name"),
        (["request", "a", "x", "-f", "-"], "give only one of MESSAGE and -f"),
        (["respond", "a"], "COMMAND..."),
        (["respond", "a/#/b", "cat"], "'#' must be the whole last level"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_sent(arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "secret" not in err
