import zlib

from hypothesis import given
from hypothesis import strategies as st


@given(data=st.binary(max_size=400), before=st.binary(max_size=8))
def test_checksum_is_that_of_zlib(data, before):
    from penstock.kernel.checksum import crc32

    assert crc32(data, zlib.crc32(before)) == zlib.crc32(before + data)


def test_checksum_of_a_large_entry_is_that_of_zlib():
    from penstock.kernel.checksum import crc32

    data = bytes(range(256)) * 1_024 + b"rest"
    assert crc32(data) == zlib.crc32(data)
    assert crc32(memoryview(data)[3:]) == zlib.crc32(data[3:])
