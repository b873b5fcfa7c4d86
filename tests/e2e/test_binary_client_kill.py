"""The binary clients and their examples against a broker process that is killed."""

import subprocess
import sys
import threading
from pathlib import Path

from penstock.client import Publisher, Subscriber
from tests.e2e.binary_client_flavours import FAST

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name, *arguments, cwd=None):
    """Run an example to its end; return its output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_stream_goes_on_over_kill_9_without_gap_or_repetition_and_is_stored_once(start):
    broker = start()
    listen = ("--listen", f"127.0.0.1:{broker.port}", "--http-listen", "127.0.0.1:0")
    payloads = [b"%d" % number for number in range(4_000)]
    results = []
    with (
        Publisher(port=broker.port, backoff=FAST) as publisher,
        Subscriber("c", "t", port=broker.port, backoff=FAST) as subscriber,
    ):
        thread = threading.Thread(target=lambda: results.extend(publish(publisher, payloads)))
        thread.start()
        found = []
        for message in subscriber.messages(20):
            found.append(message)
            if len(found) in {500, 1_500, 2_500}:
                broker.kill()
                broker.wait_killed()
                broker = start(*listen, listen=False)
            if message.payload == payloads[-1]:
                break
        thread.join()
    assert results == [None] * len(payloads)
    sequences = [message.sequence for message in found]
    assert sequences == sorted(set(sequences))
    assert [message.payload for message in found] == payloads, "each was stored once"


def publish(publisher, payloads):
    """In portions, so that something is in flight at any time."""
    return [
        result
        for start in range(0, len(payloads), 50)
        for result in publisher.publish_many("t", payloads[start : start + 50])
    ]


def test_the_example_of_exactly_once(start):
    port = str(start().port)
    kept = example("exactly_once.py", "publish", "--port", port, "--numbers", "5")
    assert kept == [f"kept: {number}" for number in range(5)]
    assert example("exactly_once.py", "subscribe", "--port", port, "--numbers", "3") == [*"012"]
    assert example("exactly_once.py", "subscribe", "--port", port, "--numbers", "2") == [*"34"]


def test_the_example_of_a_queue(start):
    port = str(start().port)
    pushed = example("queue_worker.py", "push", "--port", port, "--jobs", "5")
    assert pushed == ["5 jobs are on the broker's disk"]
    done = example("queue_worker.py", "work", "--port", port, "--idle", "0.5")
    assert done == [f"done: image-{number}.png" for number in range(5)]


def test_the_example_of_signing(start, tmp_path):
    port = str(start().port)
    script = Path(sys.executable).with_name("penstock")
    new = ["keys", "new", "pump1", "--topics", "secure/pump1/#", "--server", f"127.0.0.1:{port}"]
    subprocess.run([script, *new], check=True, cwd=tmp_path, capture_output=True, timeout=40)
    options = ("pump1.key.json", "--port", port)
    assert example("signed_sensor.py", "publish", *options, cwd=tmp_path) == ["kept: 4.2"]
    heard = example("signed_sensor.py", "subscribe", *options, cwd=tmp_path)
    assert heard == ["4.2 verified=True"]
