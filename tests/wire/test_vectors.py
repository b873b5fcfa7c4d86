"""Every vector gives the same, whole, byte by byte, and cut at random."""

import random

import pytest

from tests.wire.pair import byte_by_byte, whole
from tests.wire.vectors import (
    CLIENT_FILES,
    CLIENT_FILES_5,
    SERVER_FILES,
    SERVER_FILES_5,
    client_5_in,
    client_in,
    expectation,
    feed,
    load,
    server_5_in,
    server_in,
    wire_bytes,
)


def cut_at_random(data: bytes) -> list[bytes]:
    chance = random.Random(len(data))  # the same cuts on every run
    pieces, at = [], 0
    while at < len(data):
        size = chance.choice((1, 2, 3, 5, 40, 5000))
        pieces.append(data[at : at + size])
        at += size
    return pieces


CUTS = (whole, byte_by_byte, cut_at_random)
VECTORS = [
    pytest.param(make, vector, id=f"{name}: {vector['name']}")
    for make, names in (
        (server_in, SERVER_FILES),
        (client_in, CLIENT_FILES),
        (server_5_in, SERVER_FILES_5),
        (client_5_in, CLIENT_FILES_5),
    )
    for name in names
    for vector in load(name)
]


@pytest.mark.parametrize(("make", "vector"), VECTORS)
def test_vector_gives_what_the_standard_says_however_it_is_cut(make, vector):
    expected = expectation(vector["expect"])
    for cut in CUTS:
        machine = make(vector["state"])
        assert feed(machine, cut(wire_bytes(vector["bytes"]))) == expected
        is_end = bool(expected) and expected[-1][0] in {"violation", "refused", "disconnect"}
        is_refusal = bool(expected) and expected[-1][0] == "connack" and expected[-1][2] != 0
        assert machine.closed == (is_end or is_refusal)
        assert machine.pending_bytes == vector.get("pending", 0)


def test_names_are_unique_in_each_file():
    for name in SERVER_FILES + CLIENT_FILES + SERVER_FILES_5 + CLIENT_FILES_5:
        names = [vector["name"] for vector in load(name)]
        assert len(names) == len(set(names))
