"""Every vector gives the same whole, byte by byte, and cut in two at every place."""

import pytest

from tests.wire.binary.vectors import MACHINES, feed, load
from tests.wire.pair import byte_by_byte, whole
from tests.wire.vectors import expectation, wire_bytes

VECTORS = [
    pytest.param(make, vector, id=f"{name}: {vector['name']}")
    for name, make in MACHINES.items()
    for vector in load(name)
]


def ways_to_cut(data):
    yield whole(data)
    yield byte_by_byte(data)
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


@pytest.mark.parametrize(("make", "vector"), VECTORS)
def test_vector_gives_what_the_protocol_says_however_it_is_cut(make, vector):
    expected = expectation(vector["expect"])
    for pieces in ways_to_cut(wire_bytes(vector["bytes"])):
        machine = make()
        assert feed(machine, pieces) == expected
        assert machine.closed == (bool(expected) and expected[-1][0] == "violation")
        assert machine.pending_bytes == vector.get("pending", 0)


@pytest.mark.parametrize("file", MACHINES)
def test_names_are_unique_in_each_file(file):
    names = [vector["name"] for vector in load(file)]
    assert len(names) == len(set(names))
