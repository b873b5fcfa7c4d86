"""``penstock pub`` and ``penstock sub`` as a user runs them: processes, pipes, signals."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import uuid
from datetime import datetime
from threading import Timer

import pytest

from penstock.client import connect
from penstock.testing import Broker

PENSTOCK = "from penstock.cli import main; main()"
SUB = [sys.executable, "-c", PENSTOCK, "sub"]
AWAY = {
    (): b"the broker closed the connection: ",
    ("--mqtt-version", "3.1.1"): b"the broker closed the connection; reconnecting\n",
    ("--from", "earliest"): b"the broker closed the connection; reconnecting\n",
}
ALIAS = "from penstock.cli import aliases; aliases.{}()"


@pytest.fixture(scope="module")
def broker():
    with Broker() as own:
        yield own


@pytest.fixture
def name():
    """A topic, or client id, that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def run(broker):
    """Run a command against the broker until it exits."""

    def run_command(*arguments, given=b"", program=PENSTOCK, port=None):
        return subprocess.run(
            [sys.executable, "-c", program, *arguments, "-p", str(port or broker.port)],
            input=given,
            capture_output=True,
            timeout=30,
            check=False,
        )

    return run_command


@pytest.fixture
def client(broker):
    with connect(broker.host, broker.port) as own:
        yield own


@pytest.fixture
def start(broker):
    """Start ``penstock sub`` and return it once it has subscribed."""
    with contextlib.ExitStack() as stack:

        def start_sub(topic, *arguments):
            process = stack.enter_context(
                subprocess.Popen(
                    [*SUB, topic, *arguments, "-p", str(broker.port)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            assert process.stderr.readline() == f"subscribed to {topic}\n".encode()
            return process

        yield start_sub


def said(done):
    """Exit status, standard output and standard error."""
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def received(client, count):
    taken = []
    for delivery in client.messages(timeout_s=20):
        taken.append(delivery)
        if len(taken) == count:
            break
    return taken


# ── Publishing


@pytest.mark.parametrize(
    ("options", "confirmation"),
    [
        (["-q", "0"], ""),
        (["-q", "0", "-v"], "sent\n"),
        (["-q", "1"], "acknowledged by the broker\n"),
        (["-q", "2"], "acknowledged by the broker, exactly once\n"),
        (["-q", "1", "--quiet"], ""),
    ],
)
def test_pub_says_what_is_known_of_the_message(run, client, name, options, confirmation):
    client.subscribe([(name, 2)])
    assert said(run("pub", name, "héllo", *options)) == (0, confirmation, "")
    [delivery] = received(client, 1)
    assert (delivery.payload.decode(), delivery.qos) == ("héllo", int(options[1]))


@pytest.mark.parametrize(
    "words", [["-t", "{}", "-m", "5"], ["{}", "-m", "5"], ["-t", "{}", "5"], ["-m5", "{}"]]
)
def test_topic_and_message_may_be_options_as_with_mosquitto_pub(run, client, name, words):
    client.subscribe([(name, 0)])
    assert said(run("pub", *[word.format(name) for word in words]))[0] == 0
    assert [delivery.payload for delivery in received(client, 1)] == [b"5"]


def test_a_negative_number_is_published_as_an_option(run, client, name):
    client.subscribe([(name, 0)])
    assert said(run("pub", name, "-m", "-5"))[0] == 0
    assert [delivery.payload for delivery in received(client, 1)] == [b"-5"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_line_of_standard_input_is_a_message(run, client, name, qos):
    client.subscribe([(name, 2)])
    lines = b"\n".join(b"line %d" % number for number in range(10_000))
    done = run("pub", name, "-q", str(qos), "-v", given=lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"10,000 messages ")
    assert b"\n".join(delivery.payload for delivery in received(client, 10_000)) == lines


def test_a_line_is_published_when_it_comes_and_not_at_the_end(broker, client, name):
    client.subscribe([(name, 1)])
    command = [sys.executable, "-c", PENSTOCK, "pub", name, "-l", "-q1", "-p", str(broker.port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for line in (b"first", b""):
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            assert [delivery.payload for delivery in received(client, 1)] == [line]
        process.stdin.close()
        assert process.wait(20) == 0
        assert process.stdout.read() == b"2 messages acknowledged by the broker\n"


@pytest.mark.parametrize("source", ["a file", "-"])
def test_a_file_is_one_message(run, client, name, tmp_path, source):
    content = b"two\nlines, and \xff"
    file = tmp_path / "payload"
    file.write_bytes(content)
    client.subscribe([(name, 1)])
    done = run("pub", name, "-q1", "-f", "-" if source == "-" else str(file), given=content)
    assert said(done)[0] == 0
    assert received(client, 1)[0].payload == content


def test_a_retained_message_is_kept_until_it_is_cleared(run, name):
    assert run("pub", name, "kept", "-r", "-q1").returncode == 0
    done = run("sub", name, "-n1", "--timeout", "20", "--quiet")
    assert said(done) == (0, f"{name} kept\n", "")
    assert run("pub", name, "-n", "-r", "-q1").returncode == 0
    done = run("sub", name, "-n1", "--timeout", "0.2", "--quiet")
    assert said(done) == (1, "", "penstock: received 0 of 1 messages within 0.2 s\n")


def test_pub_tells_programs_what_happened(run, name):
    done = run("pub", name, "-q1", "--json", given=b"a\nb\nc\n")
    assert json.loads(done.stdout) == {
        "topic": name,
        "qos": 1,
        "retain": False,
        "ok": True,
        "sent": 3,
        "confirmed": 3,
        "error": None,
    }


# ── Subscribing


def test_sub_prints_a_line_per_message_whatever_is_in_it(client, start, name):
    process = start(name, "-n", "4")
    for payload in (
        b"plain text",
        "tab\there, ünïcode".encode(),
        b"two\nlines\x1b[31m",
        b"\xff\x00",
    ):
        client.publish(name, payload, qos=1)
    out, err = process.communicate(timeout=20)
    lines = ["plain text", "tab\there, ünïcode", "two\\nlines\\x1b[31m", "hex:ff00"]
    assert out.decode() == "".join(f"{name} {line}\n" for line in lines)
    assert (process.returncode, err) == (0, b"")


def test_sub_tells_programs_everything(run, client, name):
    client.publish(f"{name}/text", b"two\nlines", qos=1, retain=True)
    client.publish(f"{name}/bytes", b"\xff\x00", qos=1, retain=True)
    done = run("sub", f"{name}/#", "-n2", "--json", "--timeout", "20")
    objects = {each["topic"]: each for each in map(json.loads, done.stdout.splitlines())}
    times = [datetime.fromisoformat(each.pop("time")) for each in objects.values()]
    assert all(time.tzinfo for time in times)
    common = {"qos": 1, "retain": True, "dup": False}
    text, raw = f"{name}/text", f"{name}/bytes"
    assert objects == {
        text: {"topic": text, "payload": "two\nlines", **common},
        raw: {"topic": raw, "payload_base64": "/wA=", **common},
    }


def test_a_session_gets_what_was_published_while_it_was_away_and_each_once(run, client, name):
    done = run("sub", name, "-c", name, "--timeout", "0.01")
    assert said(done) == (0, "", f"subscribed to {name}\n")
    client.publish_many([(name, b"%d" % number) for number in range(5)], qos=1)
    for expected in ("0 1", "2 3", "4"):
        count = str(len(expected.split()))
        done = run("sub", name, "-c", name, "-n", count, "--timeout", "20", "--quiet")
        lines = "".join(f"{name} {number}\n" for number in expected.split())
        assert said(done) == (0, lines, "")
    assert run("sub", name, "-c", name, "-n1", "--timeout", "0.2").returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_sub_in_order(broker, start, name, number):
    """It disconnects cleanly: the broker would publish the will of a lost connection."""
    lost = 'penstock_disconnects_total{reason="connection_lost"}'
    process = start(name)
    before = broker.metrics()[lost]
    process.send_signal(number)
    assert process.wait(20) == 0
    assert (process.stdout.read(), process.stderr.read()) == (b"", b"")
    assert broker.metrics()[lost] == before


@pytest.mark.parametrize(
    ("version", "cause"),
    [("3.1.1", "another client probably uses the id {}; its log"), ("5", "")],
)
def test_sub_names_the_cause_when_its_id_is_taken(broker, start, name, version, cause):
    """A broker of 3.1.1 does not tell, so the command guesses."""
    process = start(name, "-c", name, "--mqtt-version", version)
    with connect(broker.host, broker.port, name):
        assert process.wait(20) == 1
    cause = cause.format(name)
    assert (
        process.stderr.read()
        .decode()
        .startswith(f"penstock: the broker closed the connection: {cause}")
    )


@pytest.fixture(params=["restart", "kill"])
def trouble(request):
    """A separate broker, and what happens to it."""
    with Broker() as own:
        yield own, lambda: own.restart(kill=request.param == "kill")


@pytest.mark.parametrize("options", [(), ("-c", "keeper")], ids=["new id", "own id"])
def test_sub_waits_for_its_broker_and_goes_on(trouble, name, options):
    own, happen = trouble
    subscribed = f"subscribed to {name}\n".encode()
    command = [*SUB, "-t", name, "-v", *options, "-p", str(own.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == subscribed
        for number in (b"1", b"2"):
            with connect(own.host, own.port) as client:
                client.publish(name, number, qos=1)
            while (line := process.stdout.readline()) != b"%s %s\n" % (name.encode(), number):
                assert line == f"{name} 1\n".encode(), "again, as it was not acknowledged yet"
            if number == b"1":
                happen()
                while (line := process.stderr.readline()) != subscribed:
                    assert b"reconnecting" in line
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.parametrize("options", AWAY)
def test_a_signal_ends_sub_while_it_waits_for_its_broker(name, options):
    with Broker() as own:
        command = [*SUB, name, *options, "-p", str(own.port)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        process.stderr.readline()
    with process:
        line = process.stderr.readline()
        assert line.startswith(AWAY[options])
        assert line.endswith(b"; reconnecting\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


# ── History


def test_sub_prints_what_topics_hold_and_then_what_comes_over_a_restart(trouble):
    own, happen = trouble
    with connect(own.host, own.port) as client:
        for number in range(4):
            client.publish(f"h/{number % 2}", b"%d" % number, qos=1)
    command = [*SUB, "h/#", "--from", "earliest", "-n", "6", "-p", str(own.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"reading h/#\n"
        held = [process.stdout.readline() for _ in range(4)]
        assert held == [b"h/0 0\n", b"h/1 1\n", b"h/0 2\n", b"h/1 3\n"], "as they were journaled"
        happen()
        for number, topic in ((4, "h/1"), (5, "h/new")):
            with connect(own.host, own.port) as client:
                client.publish(topic, b"%d" % number, qos=1)
            assert process.stdout.readline() == b"%s %d\n" % (topic.encode(), number)
        assert process.wait(20) == 0


@pytest.mark.parametrize("asked", [("h", "--replay", "offset=0"), ("$replay/offset=0/h",)])
def test_a_session_of_sub_goes_on_with_its_replay_after_a_crash(asked):
    """Its output is not read before: so most of the history is still to come."""
    wanted = {f"h {number:0100}\n".encode() for number in range(6_000)}
    with Broker() as own:
        with connect(own.host, own.port) as client:
            client.publish_many([("h", line[2:-1]) for line in sorted(wanted)], qos=1)
        command = [*SUB, *asked, "-c", "reader", "-p", str(own.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stderr.readline().startswith(b"subscribed to ")
            assert process.stdout.readline() == min(wanted)
            own.restart(kill=True)
            received = {min(wanted)}
            watchdog = Timer(60, process.kill)
            watchdog.start()
            while received != wanted and (line := process.stdout.readline()):
                received.add(line)
            watchdog.cancel()
            process.kill()
    assert received == wanted


def test_history_begins_at_an_offset_or_a_time(broker, run, client, name):
    client.publish_many([(name, b"%d" % number) for number in range(3)], qos=1)
    done = run("sub", name, "--from", "1", "-n2", "--json", "--quiet")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [1, 2]
    done = run("sub", name, "--since", "99999d", "-n3", "--quiet")  # the broker's clock is virtual
    assert done.stdout.decode() == "".join(f"{name} {number}\n" for number in range(3))
    for place in (("--from", "7"), ("--since", "0")):
        done = run("sub", name, *place, "-n1", "--timeout", "0.5", "--quiet")
        assert (done.returncode, done.stdout) == (1, b"")


def test_sub_ends_when_its_reader_has_gone(start, name):
    """As in ``penstock sub ... | head -1``; it does not need another message to notice."""
    process = start(name)
    process.stdout.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == b""


# ── What goes wrong


@pytest.mark.parametrize("command", [["pub", "t", "x"], ["sub", "t"]])
def test_no_broker_is_one_line_and_status_1(run, command):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    line = (
        f"penstock: no broker is listening on 127.0.0.1:{port}; start one with `penstock serve`\n"
    )
    assert said(run(*command, port=port)) == (1, "", line)


def test_pub_tells_programs_what_went_wrong(run):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    done = run("pub", "t", "x", "-q1", "--json", port=port)
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"], result["confirmed"]) == (1, False, 0)
    assert "no broker is listening" in result["error"]


def test_pub_that_is_thrown_out_says_how_many_were_confirmed(run, name):
    """The third line exceeds the size of any packet."""
    lines = b"one\ntwo\n" + bytes(300_000).replace(b"\0", b"x") + b"\n"
    status, out, err = said(run("pub", name, "-q1", "--mqtt-version", "3.1.1", given=lines))
    assert (status, out) == (1, "")
    assert err.startswith("penstock: the broker closed the connection; ")
    assert err.endswith(" of 3 messages were confirmed)\n")
    status, out, err = said(run("pub", name, "-q1", given=lines))
    assert (status, out) == (1, "")
    assert "bytes with its head, and the broker takes 262,144 at most; " in err
    assert err.endswith("(2 of 3 messages were confirmed)\n")


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_unsigned_publish_that_is_refused_fails_and_signing_is_suspected(run, qos):
    done = run("pub", "secure/pump", "x", "-q", qos, "--json")
    status, out, err = said(done)
    assert status == 1
    assert (json.loads(out)["ok"], json.loads(out)["confirmed"]) == (False, 0)
    assert "topics that begin with secure/ require signatures; see docs/operating/signing.md" in err


def test_refused_publish_of_qos_0_fails_whatever_its_topic(run):
    status, out, err = said(run("pub", "$SYS/mine", "x", "-v"))
    assert (status, out) == (1, "")
    assert "the broker closed the connection" in err
    assert "signature" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pub", "a/+", "x"], "'a/+': wildcard in a topic name"),
        (["pub", "", "x"], "'': empty"),
        (["pub", "a", "x", "-q", "3"], "3 is not in the range 0<=x<=2"),
        (["pub", "a", "x", "-n"], "give only one of MESSAGE and -n"),
        (["pub", "a", "-f", "no-such-file"], "No such file"),
        (["sub", "a/#/b"], "'a/#/b': '#' must be the whole last level"),
        (["sub", "a", "-q", "x"], "'x' is not a valid integer"),
        (["sub", "a", "-n", "0"], "0 is not in the range x>=1"),
        (["sub"], "FILTER is missing"),
        (["sub", "a", "--from", "newest"], "'newest' is neither `earliest` nor an offset"),
        (["sub", "a", "--from", "1", "--since", "1m"], "give only one of --from and --since"),
        (["sub", "a", "--from", "1", "-c", "me"], "-c cannot be combined with"),
        (["sub", "$share/g/a", "--from", "1"], "shared subscriptions have no history"),
        (["pub", "a", "-5.3"], "'-5.3' looks like an option; write -m -5.3 to publish it"),
        (["dlq", "list", "pics", "resize"], "penstock dlq show pics resize"),
        (["pub"], "TOPIC is missing: give TOPIC MESSAGE, or -t TOPIC -m MESSAGE"),
        (["pub", "a", "two", "words"], "quote a message with spaces"),
    ],
)
def test_what_cannot_be_meant_is_said_before_anything_is_sent(run, arguments, message):
    status, out, err = said(run(*arguments))
    assert (status, out) == (2, ""), "as of all commands that are not understood"
    assert message in err
    assert "Traceback" not in err


# ── Other names


def test_producer_and_consumer_are_pub_and_sub(run, name):
    done = run(name, "hello", "-r", "-q1", program=ALIAS.format("producer"))
    assert said(done) == (0, "acknowledged by the broker\n", "")
    done = run(name, "-n1", "--timeout", "20", program=ALIAS.format("consumer"))
    assert said(done) == (0, f"{name} hello\n", f"subscribed to {name}\n")


def test_mqtt_broker_is_serve(tmp_path, name):
    options = ["-h", "127.0.0.1", "-p", "0", "--max-clients", "1", "--data", str(tmp_path)]
    command = [sys.executable, "-c", ALIAS.format("broker"), *options, "--http-listen", ""]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        listening = next(line for line in process.stdout if "listening" in line)
        port = int(listening.split()[1].rstrip(",").rpartition(":")[2])
        with connect("127.0.0.1", port) as client:
            client.publish(name, b"x", qos=1)
        process.terminate()
        assert "All acknowledged messages are on disk" in process.stdout.read()
        assert process.wait(20) == 0
