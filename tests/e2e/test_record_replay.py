"""``sub --record`` and ``pub --replay``: traffic of one broker, played to another."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.mqtt.client import connect
from penstock.client.mqtt.properties import PublishProperties
from tests.e2e.process import TIMEOUT_S

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def run(*arguments, check=True):
    done = subprocess.run(
        [PENSTOCK, *arguments], check=False, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0 or not check, done.stderr
    return done


def record(broker, path, count, publish):
    """Record what ``publish(client)`` publishes."""
    command = [
        PENSTOCK,
        "sub",
        "#",
        "--record",
        str(path),
        "-n",
        str(count),
        "-p",
        str(broker.port),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as recorder:
        assert "subscribed" in recorder.stderr.readline()
        with connect(broker.host, broker.port) as client:
            publish(client)
        assert f"recorded {count} message" in recorder.stderr.read()
    assert recorder.returncode == 0


def stored(broker, topic):
    return [m["payload"] for m in broker.json(f"/topics/{topic}?limit=1000")[1]["messages"]]


@pytest.mark.parametrize("name", ["traffic.jsonl", "traffic.jsonl.gz"])
def test_what_was_recorded_arrives_again_under_another_name(start, tmp_path, name):
    broker = start()
    own = PublishProperties(content_type="text/plain")

    def publish(client):
        client.publish("plant/1", b"4.2", 1, properties=own)
        client.publish_many([("plant/1", b"%d" % n) for n in range(50)], 1)

    record(broker, tmp_path / name, 51, publish)
    replay = ("pub", "--replay", str(tmp_path / name), "-p", str(broker.port))
    dry = run(*replay, "--dry-run", "--map", "plant/#=again/#")
    assert "51 messages to 1 topic" in dry.stdout
    assert "again/1" in dry.stdout
    done = run(*replay, "--speed", "max", "--map", "plant/#=again/#", "--json")
    assert json.loads(done.stdout)["published"] == 51
    assert stored(broker, "again/1") == stored(broker, "plant/1")
    status, page = broker.json("/topics/again/1?offset=0&limit=1")
    assert status == 200
    assert ["mqtt-content-type", "text/plain"] in page["messages"][0]["headers"]


def test_a_replay_keeps_the_pace_of_the_recording(start, tmp_path):
    """At a tenth of the speed nothing of the second moment is due at once."""
    broker = start()
    path = tmp_path / "slow.jsonl"
    lines = ['{"penstock_recording":1,"filters":["#"]}']
    lines += [f'{{"t":{t},"topic":"a","payload":"{t}","qos":1}}' for t in (0, 3_600_000)]
    path.write_text("\n".join(lines) + "\n")
    command = [PENSTOCK, "pub", "--replay", str(path), "-p", str(broker.port)]
    with connect(broker.host, broker.port) as client:
        client.subscribe([("a", 1)])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as replay:
            assert next(iter(client.messages(TIMEOUT_S))).payload == b"0"
            replay.send_signal(signal.SIGINT)
            assert "--skip 1" in replay.stdout.read()
    assert stored(broker, "a") == ["0"]
    run(*command[1:], "--speed", "1e6", "--skip", "1")
    assert stored(broker, "a") == ["0", "3600000"]


@pytest.mark.slow
def test_a_replay_goes_on_when_the_broker_was_killed(start, tmp_path):
    path = tmp_path / "traffic.jsonl"
    lines = ['{"penstock_recording":1,"filters":["#"]}']
    lines += [f'{{"t":{n // 10},"topic":"a","payload":"{n}","qos":1}}' for n in range(20_000)]
    path.write_text("\n".join(lines) + "\n")
    broker = start()
    port = broker.port
    command = [PENSTOCK, "pub", "--replay", str(path), "-p", str(port)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as replay:
        for _ in range(3):
            with connect(broker.host, port) as client:
                client.subscribe([("a", 1)])
                next(iter(client.messages(TIMEOUT_S)))
            broker.kill()
            broker.wait_killed()
            listen = ("--listen", f"127.0.0.1:{port}", "--http-listen", "127.0.0.1:0")
            broker = start(*listen, listen=False)
        said, troubles = replay.communicate(timeout=120)
    assert replay.returncode == 0, troubles
    assert "published 20,000 messages" in said
    missing, offset = set(map(str, range(20_000))), 0
    while missing:
        page = broker.json(f"/topics/a?limit=1000&offset={offset}")[1]["messages"]
        assert page, sorted(missing)[:5]
        missing -= {message["payload"] for message in page}
        offset += len(page)
