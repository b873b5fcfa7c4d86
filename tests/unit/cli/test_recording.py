"""Recordings: what was written is read back, and damage is noticed."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.recording import Recorder, Recording
from penstock.cli.replaying import Plan, Renaming
from penstock.client import Delivery, PublishProperties
from penstock.errors import PenstockError

payloads = st.binary(max_size=20)
texts = st.text(max_size=5)
properties = st.builds(
    PublishProperties,
    expiry_s=st.none() | st.integers(0, 9),
    content_type=st.none() | texts,
    correlation_data=st.none() | st.binary(min_size=1, max_size=5),
    user_properties=st.lists(st.tuples(texts, texts), max_size=2),
)
deliveries = st.builds(
    Delivery,
    topic=st.text(min_size=1, max_size=5),
    payload=payloads,
    qos=st.integers(0, 2),
    retain=st.booleans(),
    dup=st.just(False),
    packet_id=st.just(0),
    properties=properties,
)


def recorded(path, batches, *, is_finished=True):
    recorder = Recorder(path, ["#"], 1_000)
    for number, batch in enumerate(batches):
        recorder.write(batch, 1_000 + 10 * number)
    written = path.read_bytes()
    recorder.finish()
    if not is_finished:
        path.write_bytes(written)  # what a killed recorder leaves
    return Recording(path)


def one(topic="a", payload=b"x"):
    return Delivery(topic, payload, 1, False, False, 1)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@given(batches=st.lists(st.lists(deliveries, max_size=3), max_size=3))
def test_what_was_recorded_is_read_back(tmp_path_factory, name, batches):
    recording = recorded(tmp_path_factory.mktemp("recording") / name, batches)
    expected = [
        (10 * number, d.topic, d.payload, d.qos, d.retain, d.properties)
        for number, batch in enumerate(batches)
        for d in batch
    ]
    found = [
        m._replace(properties=m.properties or PublishProperties()) for m in recording.messages()
    ]
    assert found == expected
    assert not recording.is_cut_off
    assert recording.head.filters == ["#"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_of_a_recorder_that_was_killed_every_written_line_can_be_read(tmp_path, name):
    path = tmp_path / name
    recording = recorded(path, [[one()], [one("b")]], is_finished=False)
    assert [message.topic for message in recording.messages()] == ["a", "b"]
    assert recording.is_cut_off


def test_a_line_that_was_cut_in_the_middle_is_left_out(tmp_path):
    path = tmp_path / "a.jsonl"
    recording = recorded(path, [[one()], [one("b")]], is_finished=False)
    path.write_bytes(path.read_bytes()[:-5])
    assert [message.topic for message in recording.messages()] == ["a"]
    assert recording.is_cut_off


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b'"x"', b'"y"', "checksum"),
        (b'"messages":1', b'"messages":2', "2 messages, 1 are there"),
        (b'"t":0', b'"t":"no"', "line 2"),
    ],
)
def test_damage_is_named(tmp_path, before, after, said):
    path = tmp_path / "a.jsonl"
    recording = recorded(path, [[one()]])
    path.write_bytes(path.read_bytes().replace(before, after))
    with pytest.raises(PenstockError, match=said):
        list(recording.messages())


def test_damage_of_a_compressed_file_is_named(tmp_path):
    path = tmp_path / "a.gz"
    recording = recorded(path, [[one(payload=bytes(range(256)) * 9)]])
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(PenstockError):
        list(recording.messages())


def test_a_file_that_is_no_recording_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_text('{"topic": "a"}\n')
    with pytest.raises(PenstockError, match="penstock sub --record"):
        Recording(path)
    (tmp_path / "b.gz").write_bytes(gzip.compress(b'{"penstock_recording":99}\n'))
    with pytest.raises(PenstockError, match="version 99"):
        Recording(tmp_path / "b.gz")


def test_a_recording_is_never_overwritten(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(PenstockError, match="never overwritten"):
        Recorder(tmp_path / "a", [], 0)


def test_a_plan_renames_chooses_and_leaves_out(tmp_path):
    recording = recorded(
        tmp_path / "a", [[one("plant/1")], [one("other")], [one("plant/2")], [one("plant/3")]]
    )
    plan = Plan(
        speed=10, renamings=(Renaming.of("plant/#=test/p/#"),), filters=("plant/#",), skip=1
    )
    chosen = list(plan.chosen(recording))
    assert [plan.topic(message.topic) for message in chosen] == ["test/p/2", "test/p/3"]
    assert plan.due_s(chosen[0]) == pytest.approx(0.002)
    assert Plan(speed=1).topic("plant/1") == "plant/1"
