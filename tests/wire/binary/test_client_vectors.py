"""The byte vectors for clients are what broker and client machines of this project read."""

import pytest

from penstock.model.message import Signature
from penstock.trust import signatures
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine
from penstock.wire.violation import Violation
from tests.client_vectors import document
from tests.wire.binary.vectors import feed

VECTORS = document()
FRAMES = {found["name"]: found for found in VECTORS["frames"]}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_one_event_of_the_other_end(name):
    machine = BinaryServerMachine() if FRAMES[name]["from"] == "client" else BinaryClientMachine()
    events = machine.receive(bytes.fromhex(FRAMES[name]["hex"]))
    assert len(events) == 1
    assert not machine.closed
    assert not machine.pending_bytes


@pytest.mark.parametrize("stream", VECTORS["streams"], ids=lambda stream: stream["name"])
def test_a_stream_gives_the_events_of_its_frames_wherever_it_is_cut(stream):
    data = bytes.fromhex(stream["hex"])
    single = [bytes.fromhex(FRAMES[name]["hex"]) for name in stream["frames"]]
    expected = [event for frame in single for event in feed(BinaryClientMachine(), [frame])]
    for place in range(1, len(data), 7):
        assert feed(BinaryClientMachine(), [data[:place], data[place:]]) == expected


@pytest.mark.parametrize("cut", VECTORS["cut"], ids=lambda cut: f"{cut['frame']} {cut['bytes']}")
def test_a_cut_frame_is_nothing_until_the_rest_has_come(cut):
    machine = BinaryClientMachine()
    assert machine.receive(bytes.fromhex(cut["hex"])) == []
    assert len(machine.receive(bytes.fromhex(cut["missing"]))) == 1


@pytest.mark.parametrize("fault", VECTORS["faults"], ids=lambda fault: fault["name"])
def test_a_fault_ends_the_connection(fault):
    (event,) = BinaryClientMachine().receive(bytes.fromhex(fault["hex"]))
    assert isinstance(event, Violation)


@pytest.mark.parametrize("row", VECTORS["signatures"]["rfc8032"])
def test_the_rows_of_rfc_8032_are_as_published(row):
    seed, message = bytes.fromhex(row["seed"]), bytes.fromhex(row["message"])
    made = signatures.sign_1(seed, 1, b"", message)
    assert made.signature.hex() == row["signature"]
    assert signatures.key_pair(seed).public_key.hex() == row["public_key"]


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_signature_covers_is_what_it_was_made_of(version):
    found = VECTORS["signatures"][f"version_{version}"]
    topic, payload = bytes.fromhex(found["topic"]), bytes.fromhex(found["payload"])
    proof, key_id = bytes.fromhex(found["signature"]), VECTORS["signatures"]["key_id"]
    more = (found["signed_ms"], bytes.fromhex(found["nonce"])) if version == 2 else ()
    public_key = bytes.fromhex(VECTORS["signatures"]["public_key"])
    assert signatures.is_valid(public_key, topic, payload, Signature(version, key_id, proof, *more))
    covered = signatures.sign_1(
        bytes.fromhex(VECTORS["signatures"]["seed"]), key_id, b"", bytes.fromhex(found["covered"])
    )
    assert covered.signature == proof
