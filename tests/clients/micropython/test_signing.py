"""Signatures of the client for MicroPython: made and verified in Python, in each machine."""

import base64
import json
import random
import subprocess

import pytest
from nacl.signing import SigningKey

from penstock.client import Publisher, Subscriber
from penstock.client import SigningKey as DeviceKey
from tests.clients.micropython.machines import (
    HERE,
    TIMEOUT_S,
    RefusedError,
    command,
    environment,
    need,
)
from tests.signing.kit import now_ms, register

NAMES = ("cpython", "wasm", "native")


def text64(data):
    return base64.b64encode(data).decode()


@pytest.fixture
def device(broker):
    return register(broker, "*")


def connect(machine, broker, device, **more):
    key = {"id": device.key_id, "seed_b64": text64(device.seed)}
    machine.connect(broker.port, key=key, **more)


def received(broker, device, topic):
    keyring = {device.key_id: device.public_key}
    with Subscriber(f"r-{topic}", topic, port=broker.port, keyring=keyring) as subscriber:
        return subscriber.receive(TIMEOUT_S)


@pytest.mark.parametrize("version", [1, 2])
def test_a_signed_publish_is_accepted_and_verified_by_others(
    broker, machine, device, topic, version
):
    topic = f"secure/{topic}"
    connect(machine, broker, device, clock_ms=now_ms(broker))
    machine.publish(topic, b"4.2", signed=version)
    assert received(broker, device, topic).verified


def test_an_unsigned_publish_to_a_topic_that_requires_one_is_refused(
    broker, machine, device, topic
):
    connect(machine, broker, device, clock_ms=now_ms(broker))
    with pytest.raises(RefusedError, match="requires signed publish"):
        machine.publish(f"secure/{topic}", b"4.2")


def test_without_the_time_of_day_nothing_is_signed(broker, machine, device, topic):
    connect(machine, broker, device, clock_ms=1000)
    with pytest.raises(RefusedError) as refusal:
        machine.publish(f"secure/{topic}", b"4.2", signed=2)
    assert refusal.value.kind == "no_time"


def test_a_device_without_a_clock_takes_the_time_from_the_broker_if_told_to(
    broker, machine, device, topic
):
    topic = f"secure/{topic}"
    connect(machine, broker, device, clock_ms=1000, trust_time=True)
    machine.publish(topic, b"4.2", signed=2)
    assert received(broker, device, topic).verified


def test_a_publish_with_the_wrong_time_is_signed_again_until_the_clock_is_right(
    broker, machine, device, topic
):
    topic = f"secure/{topic}"
    connect(machine, broker, device, clock_ms=now_ms(broker) - 3_600_000)
    call = machine.begin_publish(topic, b"4.2", signed=2)
    machine.ask("clock", ms=now_ms(broker))
    machine.end(call)
    assert received(broker, device, topic).verified


def test_a_clock_that_stays_wrong_is_reported(broker, machine, device, topic):
    connect(machine, broker, device, clock_ms=now_ms(broker) - 3_600_000)
    with pytest.raises(RefusedError, match="Signature too old"):
        machine.publish(f"secure/{topic}", b"4.2", signed=2)


def test_a_signed_publish_of_the_ring_is_signed_when_it_is_sent(broker, machine, device, topic):
    """A signature from the time of the call would be too old by then."""
    topic = f"secure/{topic}"
    key = {"id": device.key_id, "seed_b64": text64(device.seed)}
    old = now_ms(broker) - 3_600_000
    nodes = [["127.0.0.1", 1], ["127.0.0.1", broker.port]]
    machine.ask("connect", nodes=nodes, key=key, clock_ms=old, wait=False)
    machine.publish(topic, b"4.2", signed=2, wait=False)
    machine.ask("clock", ms=now_ms(broker))
    machine.ask("flush")
    assert machine.ask("stats")["refused"] == 0
    assert received(broker, device, topic).verified


@pytest.mark.parametrize("version", [1, 2])
def test_signatures_of_others_are_verified(broker, machine, device, topic, version):
    topic = f"secure/{topic}"
    key = DeviceKey(device.key_id, device.seed, version=version)
    public = text64(device.public_key)
    machine.ask("verify", key_id=device.key_id, public_b64=public, require=False)
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    with Publisher(port=broker.port, signing_key=key) as publisher, travel(broker):
        publisher.publish(topic, b"signed")
    assert machine.message()["signer"] == "verified"


def test_messages_without_a_valid_signature_are_withheld_and_told(broker, machine, device, topic):
    other = register(broker, "*")
    public = text64(device.public_key)
    machine.ask("verify", key_id=device.key_id, public_b64=public, require=True)
    machine.connect(broker.port, client_id=topic)
    machine.ask("subscribe", topic=topic)
    with Publisher(port=broker.port) as plain:
        plain.publish(topic, b"unsigned")
    key = DeviceKey(other.key_id, other.seed, version=1)
    with Publisher(port=broker.port, signing_key=key) as stranger:
        stranger.publish(topic, b"of a stranger")
    key = DeviceKey(device.key_id, device.seed, version=1)
    with Publisher(port=broker.port, signing_key=key) as publisher:
        publisher.publish(topic, b"signed")
    assert machine.payloads(1) == [b"signed"]
    assert machine.ask("stats")["lost"] == 2


class travel:  # noqa: N801 - reads like a function
    """Sign with the broker's time, which is years away from that of this machine."""

    def __init__(self, broker):
        self.ms = now_ms(broker)

    def __enter__(self):
        from penstock.client.binary import signing

        self.before = signing.time_ns
        signing.time_ns = lambda: self.ms * 1_000_000

    def __exit__(self, *_error):
        from penstock.client.binary import signing

        signing.time_ns = self.before


# ── The signer itself ─────────────────────────────────────────────────────────────────────────

# RFC 8032, 7.1: seed, public key, message, signature
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e397"
            "01cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f361"
            "3d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f76"
            "0984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]
L = (1 << 252) + 27742317777372353535851937790883648493


def run_crypto(name, asked):
    """Ask ``crypto_program.py`` in a machine: a line each."""
    need(name)
    done = subprocess.run(
        command(name, "crypto_program.py"),
        input="".join(json.dumps(line) + "\n" for line in asked),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_sha_512_agrees_with_another_at_every_length_around_a_block(name):
    import hashlib

    data = [bytes(range(256))[:size] for size in (0, 1, 110, 111, 112, 113, 127, 128, 129, 240)]
    said = run_crypto(name, [{"sha512": part.hex()} for part in data])
    assert said == [hashlib.sha512(part).hexdigest() for part in data]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_rfc_8032(name):
    asked = [{"seed": seed, "sign": message} for seed, _, message, _ in RFC_8032]
    expected = [{"public": public, "signature": made} for _, public, _, made in RFC_8032]
    assert run_crypto(name, asked) == expected


@pytest.mark.parametrize(("name", "count"), [("cpython", 500), ("wasm", 40), ("native", 40)])
def test_signatures_and_verdicts_agree_with_libsodium(name, count):
    chance = random.Random(count)
    asked, expected = [], []
    for _ in range(count):
        key = SigningKey(chance.randbytes(32))
        message = chance.randbytes(chance.randrange(300))
        made, public = key.sign(message).signature, bytes(key.verify_key)
        asked.append({"seed": bytes(key).hex(), "sign": message.hex()})
        expected.append({"public": public.hex(), "signature": made.hex()})
        flipped = bytearray(made)
        flipped[chance.randrange(64)] ^= 1 << chance.randrange(8)
        beyond = made[:32] + (int.from_bytes(made[32:], "little") + L).to_bytes(32, "little")
        for signature, verdict in ((made, True), (bytes(flipped), False), (beyond, False)):
            asked.append(
                {"public": public.hex(), "verify": message.hex(), "signature": signature.hex()}
            )
            expected.append(verdict)
    assert run_crypto(name, asked) == expected


def test_keys_of_small_order_verify_nothing():
    """With them anybody could sign: libsodium refuses them too."""
    neutral = (1).to_bytes(32, "little")
    forged = neutral + bytes(32)
    asked = [{"public": neutral.hex(), "verify": b"any".hex(), "signature": forged.hex()}]
    assert run_crypto("cpython", asked) == [False]


def test_the_table_of_multiples_is_what_the_module_says():
    from tests.clients.micropython.comb_table import table

    scope = {}
    exec((HERE.parents[2] / "clients/micropython/penstock/comb.py").read_text(), scope)
    assert scope["TABLE"] == table()


def test_a_key_file_of_penstock_keys_signs(tmp_path):
    seed = SigningKey(bytes(range(32)))
    path = tmp_path / "pump7.key.json"
    secret = bytes(seed) + bytes(seed.verify_key)
    path.write_text(json.dumps({"key_id": 7, "secret_key": secret.hex(), "device": "pump7"}))
    said = run_crypto("cpython", [{"file": str(path), "sign": b"x".hex()}])
    assert said == [
        {"public": bytes(seed.verify_key).hex(), "signature": seed.sign(b"x").signature.hex()}
    ]
