"""Fields and ids of stream entries: both forms give the same."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

fields, ids = interpreted("penstock.doors.resp.streams.fields", "penstock.doors.resp.streams.ids")

special = st.sampled_from([b'"', b"\\", b"\x7f", b"\x1f", b"\xc3\xa4", b"%", b"%b", b"\0"])
plain = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)
values = st.one_of(plain.map(str.encode), special, st.binary(max_size=8))


@given(st.data(), st.integers(1, 4), st.integers(0, 6))
def test_entries_are_the_same(data, width, count):
    from penstock.kernel.fields import filled

    parts = tuple(data.draw(st.lists(values, min_size=width + 1, max_size=width + 1)))
    column = st.lists(values, min_size=count, max_size=count)
    columns = data.draw(st.lists(column, min_size=width, max_size=width))
    assert filled(parts, columns) == fields.filled(parts, columns)


@given(st.integers(0, 255), st.integers(0, 70))
def test_every_byte_is_plain_in_both_forms_or_in_none(byte, place):
    from penstock.kernel.fields import filled

    value = b"x" * place + bytes([byte]) + b"x" * (70 - place)
    found = filled((b"<", b">"), [[value]])
    assert found == fields.filled((b"<", b">"), [[value]])
    assert found in (None, [b"<" + value + b">"])


def test_columns_of_different_lengths_and_values_of_other_types_are_refused():
    from penstock.kernel.fields import filled

    with pytest.raises(ValueError, match="as long as"):
        filled((b"", b"", b""), [[b"a"], []])
    with pytest.raises(ValueError, match="before and after"):
        filled((b"",), [[b"a"]])
    with pytest.raises(TypeError):
        filled((b"", b""), [["a"]])
    with pytest.raises(TypeError):
        filled(("", b""), [[b"a"]])


@given(st.integers(0, 2**62), st.integers(0, 2**62), st.integers(0, 40))
@example(0, 0, 12)
@example(1_763_000_000_000, 999_990, 20)
@example(9, 95, 10)
def test_ids_are_the_same(time_ms, first_offset, count):
    from penstock.kernel.fields import id_replies

    assert id_replies(time_ms, first_offset, count) == ids.id_replies(time_ms, first_offset, count)
