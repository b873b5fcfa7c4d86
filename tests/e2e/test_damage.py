"""A damaged or foreign data directory: one clear error, and nothing is changed.

``LOCK`` and ``lock.mdb`` are excluded from the comparison: they show who uses the directory.
"""

import shutil
from pathlib import Path

import pytest

from tests.e2e.process import BrokerProcess, serve_command
from tests.e2e.test_serve import connected, refused

PAYLOAD_BYTES = 1_000
LOCKS = {"LOCK", "lock.mdb"}


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A directory with two hundred messages, after a clean stop."""
    directory = tmp_path_factory.mktemp("intact") / "data"
    with BrokerProcess(directory, "--set", "journal.client_events=false") as broker:
        with connected(broker) as client:
            for number in range(200):
                client.publish_acknowledged("t", b"message-%03d." % number + b"x" * PAYLOAD_BYTES)
        broker.stop()
    return directory


@pytest.fixture
def data(intact, tmp_path):
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(intact, tmp_path / "data"))


def content(directory):
    files = [path for path in directory.rglob("*") if path.is_file() and path.name not in LOCKS]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def refused_unchanged(data):
    """Assert that the broker does not start on ``data`` and leaves it unchanged; return the error."""
    before = content(data)
    said = refused(serve_command(data))
    assert content(data) == before
    assert len(said.splitlines()) == 2, "what is wrong, and what to do"
    return said


def flip(path, marker):
    """Change bytes in the middle of all copies of a message."""
    raw = bytearray(path.read_bytes())
    position = raw.find(marker)
    assert position >= 0
    while position >= 0:
        raw[position + 100] ^= 0xFF
        position = raw.find(marker, position + 1)
    path.write_bytes(raw)


def test_flipped_bytes_in_the_last_messages_are_found(data):
    flip(data / "data.mdb", b"message-199.")
    said = refused_unchanged(data)
    assert "entry 201: checksum" in said  # the first is that of the leader
    assert "from a backup" in said


def test_a_file_that_lost_its_end_is_found(data):
    path = data / "data.mdb"
    used = path.read_bytes().rstrip(b"\0")  # the file is longer than what is in use
    path.write_bytes(used[: len(used) // 2])
    assert "damaged" in refused_unchanged(data)


def test_a_file_that_is_no_database_is_found(data):
    path = data / "data.mdb"
    path.write_bytes(b"\x00" * path.stat().st_size)
    refused_unchanged(data)


def test_an_empty_file_is_found(data):
    (data / "data.mdb").write_bytes(b"")
    assert "data.mdb is missing or empty" in refused_unchanged(data)


def test_a_missing_file_is_not_made_anew(data):
    (data / "data.mdb").unlink()
    assert "data.mdb is missing or empty" in refused_unchanged(data)


def test_a_damaged_marker_is_found(data):
    (data / "PENSTOCK").write_bytes(b"{")
    assert "PENSTOCK is damaged" in refused_unchanged(data)


def test_a_directory_of_somebody_else_is_left_alone(tmp_path):
    directory = tmp_path / "thesis"
    (directory / "chapters").mkdir(parents=True)
    (directory / "thesis.txt").write_text("precious")
    (directory / "chapters" / "one.txt").write_text("precious too")
    said = refused_unchanged(directory)
    assert f"{directory} is not a Penstock data directory" in said
    assert "thesis.txt" in said


def test_foreign_files_beside_the_data_do_no_harm(data, start):
    (data / "notes.txt").write_text("ours is the third shelf")
    broker = start()
    assert "(200 messages" in broker.greeting
    broker.stop()
    assert (data / "notes.txt").read_text() == "ours is the third shelf"
