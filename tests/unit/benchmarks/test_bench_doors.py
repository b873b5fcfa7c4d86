"""The generator speaks RESP, NATS and the binary protocol, and believes no broker."""

import os
import shutil

import pytest
from benchmarks import generator, signing
from benchmarks.brokers import BROKERS, NatsBroker
from benchmarks.generator import GeneratorError
from fake_doors import BinaryDoor, NatsDoor, RespDoor, serving

from penstock.testing import Broker

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") or shutil.which("cc")), reason="the generator is a C program"
)

COUNT = 300
BINARY = ["-m binary-publish -s 100 -w 32", "-m binary-publish -P 8 -w 1", "-m binary-subscribe -a"]
NUMBERED = "-m binary-publish -y -P 2 -t 3"
RESP = [
    "-m resp-pubsub",
    "-m resp-pubsub -S 3 -w 8",
    "-m xadd -w 32",
    "-m xadd -P 5 -w 4 -s 100",
    "-m xadd -O -P 5 -w 4",
    "-m resp-pubsub -t 4 -R -S 2 -F wild -s 16:512",
    "-m resp-pubsub -P 4 -S 4 -t 4 -F own -b 1",
]


NATS = ["-m nats", "-m nats -t 4 -R -S 2 -F wild -s 16:512", "-m nats -P 4 -S 4 -t 4 -F own -b 1"]


def run(load, port, count=COUNT, patience=5.0):
    """``patience`` is for what has not come yet; honest brokers do not need it."""
    options = f"{load} -n {count} -D {patience} -W 20"
    return generator.run(options, port=port, broker_pid=os.getpid(), seed=1)


def flaws(door, load, cheat):
    with serving(door, cheat) as broker:
        return run(load, broker.port, patience=0.5).flaws


@pytest.fixture
def signed(tmp_path):
    frames = signing.write_frames(tmp_path / "frames", COUNT, seed=1)
    return f"-m binary-signed -x secure -f {frames.path}"


@pytest.mark.parametrize(
    ("door", "load"),
    [*((BinaryDoor, load) for load in (*BINARY, "-m binary-subscribe -S 2", NUMBERED)),
     *((RespDoor, load) for load in RESP)],
)  # fmt: skip
def test_an_honest_broker_is_without_flaws(door, load):
    with serving(door) as broker:
        figures = run(load, broker.port)
    assert figures.flaws == []
    assert figures["sent"] == figures["acked"] == COUNT
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]


def test_signed_frames_are_sent_as_they_were_signed(signed):
    with serving(BinaryDoor) as broker:
        figures = run(signed, broker.port, count=50)
        kept = [(topic + payload, trailer) for _, topic, payload, trailer in broker.log]
    assert figures.flaws == []
    assert figures["acked"] == len(kept) == 50
    key = signing.nacl.signing.SigningKey((1).to_bytes(32, "big")).verify_key
    for message, trailer in kept:
        key.verify(message, trailer[:64])


def test_a_run_of_signed_frames_ends_when_there_are_no_more(signed):
    with serving(BinaryDoor) as broker:
        assert run(signed, broker.port, count=10 * COUNT)["sent"] == COUNT


@pytest.mark.parametrize(
    ("load", "cheat", "found"),
    [
        (BINARY[0], "lose", ["lost 1"]),
        (BINARY[0], "damage", ["lost 1", "damaged 1"]),
        (BINARY[0], "answer another", ["reordered 1"]),
        (BINARY[2], "lose", ["lost 1"]),
        (BINARY[2], "damage", ["lost 1", "damaged 1"]),
        (BINARY[2], "forget acknowledgements", [f"replayed {COUNT}"]),
    ],
)
def test_a_binary_broker_that_cheats_is_found_out(load, cheat, found):
    assert flaws(BinaryDoor, load, cheat) == found


@pytest.mark.parametrize("load", [BINARY[0], BINARY[2]])
def test_a_message_that_comes_twice_has_the_same_id_and_the_same_number(load):
    assert "duplicated 2" in flaws(BinaryDoor, load, "double")


def test_a_broker_that_does_not_number_publishes_is_found_out():
    with pytest.raises(GeneratorError, match="does not number publishes"):
        flaws(BinaryDoor, NUMBERED, "number nothing")


def test_a_broker_that_strips_signatures_is_found_out(signed):
    with serving(BinaryDoor, "strip signatures") as broker:
        assert run(signed, broker.port, count=50).flaws == ["damaged 50"]


@pytest.mark.parametrize(
    ("load", "cheat", "found"),
    [
        ("-m resp-pubsub", "lose", "lost 1"),
        ("-m xadd", "lose", "lost 1"),
        ("-m xadd", "repeat an id", "reordered 1"),
        ("-m xadd -O", "lose", "lost 1"),
        ("-m xadd -O", "repeat an id", "reordered 1"),
    ],
)
def test_a_resp_broker_that_cheats_is_found_out(load, cheat, found):
    assert flaws(RespDoor, load, cheat) == [found]


def test_a_field_that_is_damaged_is_found_out():
    assert flaws(RespDoor, "-m xadd -O", "damage") == ["lost 1", "damaged 1"]


@pytest.mark.parametrize("load", NATS)
def test_what_is_published_by_nats_arrives(load):
    with serving(NatsDoor) as broker:
        figures = run(load, broker.port)
    assert figures.flaws == []
    assert figures["sent"] == COUNT
    assert figures["delivered"] == COUNT * (2 if "wild" in load else 1)


@pytest.mark.parametrize(
    ("cheat", "found"),
    [("lose", {"lost"}), ("damage", {"lost", "damaged"}), ("double", {"duplicated"})],
)
def test_a_nats_broker_that_cheats_is_found_out(cheat, found):
    """How many times depends on the probes that the generator had to repeat."""
    assert found <= {flaw.partition(" ")[0] for flaw in flaws(NatsDoor, NATS[0], cheat)}


def test_an_error_of_nats_ends_the_run_and_is_told():
    with serving(NatsDoor, "refuse") as broker, pytest.raises(GeneratorError, match="not today"):
        run(NATS[0], broker.port)


def test_payloads_and_fields_differ_from_message_to_message():
    """Beyond the stamp, which is always another: text, and the values of fields."""
    with serving(BinaryDoor) as broker:
        run(BINARY[0], broker.port)
        payloads = [payload for _, _, payload, _ in broker.log]
    assert len({payload[16:] for payload in payloads}) == len(payloads) == COUNT
    with serving(RespDoor) as broker:
        run("-m xadd -O", broker.port)
        entries = [words for _, words in broker.log]
    names, values = {words[::2] for words in entries}, [words[1::2] for words in entries]
    assert names == {(b"temperature", b"humidity", b"battery", b"state")}
    assert len(set(values)) == COUNT
    assert all(len(set(column)) > COUNT / 2 for column in zip(*values, strict=True))
    assert all(len(set(map(len, column))) > 1 for column in zip(*values, strict=True))


def test_a_wrong_number_of_receivers_ends_the_run():
    complaint = "PUBLISH reached 2 subscribers of 1"
    with serving(RespDoor, "boast") as broker, pytest.raises(GeneratorError, match=complaint):
        run("-m resp-pubsub", broker.port)


def test_a_refusal_ends_the_run_and_is_told():
    with serving(BinaryDoor, "refuse") as broker, pytest.raises(GeneratorError, match="not today"):
        run(BINARY[0], broker.port)


@pytest.mark.parametrize(
    ("load", "complaint"),
    [
        ("-m telnet", "no such mode"),
        ("-m xadd -S 1", "-S: none with xadd"),
        ("-m xadd -t 2", "one topic"),
        ("-m resp-pubsub -q 1", "only MQTT"),
        ("-m xadd -F wild", "-F wild: not with xadd"),
        ("-m nats -F share", "-F share: only MQTT"),
        ("-F part -S 3 -t 2", "a topic for each subscriber"),
        ("-F some", "no such spread"),
        ("-m resp-pubsub -O", "-O: only xadd"),
        ("-m binary-publish -a", "binary-subscribe only"),
        ("-m binary-signed", "-f FILE"),
    ],
)
def test_what_a_mode_cannot_do_is_refused_before_anything_connects(load, complaint):
    with pytest.raises(GeneratorError, match=complaint):
        run(load, port=1)


@pytest.mark.skipif(NatsBroker.program() is None, reason="nats-server is not installed")
@pytest.mark.parametrize("load", NATS)
def test_nats_is_an_honest_broker(load, tmp_path):
    with NatsBroker.running(tmp_path) as broker:
        figures = run(load, broker.port, count=2_000)
    assert figures.flaws == []
    assert "nats-server" in NatsBroker.version()


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
@pytest.mark.parametrize(
    ("kind", "load"),
    [
        ("redis", RESP[1]),
        ("redis", RESP[5]),
        ("redis", RESP[6]),
        ("redis-synced", RESP[3]),
        ("redis-synced", RESP[4]),
    ],
)
def test_redis_is_an_honest_broker(kind, load, tmp_path):
    with BROKERS[kind].running(tmp_path) as broker:
        figures = run(load, broker.port, count=2_000)
    assert figures.flaws == []
    assert figures["acked"] == 2_000


@pytest.mark.parametrize(
    "load",
    [
        RESP[5],
        RESP[6],
        RESP[4],
        "-m xreadgroup -O -A turn -j 70",
        "-P 4 -S 4 -t 4 -F own -b 1",
        "-P 2 -S 3 -t 6 -F part -s 1024:8192",
        "-q 1 -S 8 -F share",
    ],
)
def test_our_own_broker_is_honest_with_traffic_of_the_field(load):
    with Broker() as broker:
        figures = run(load, broker.port)
    assert figures.flaws == []
    assert figures["sent"] >= COUNT
