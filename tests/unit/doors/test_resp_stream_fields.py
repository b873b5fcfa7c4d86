"""Fields of stream entries and messages: there and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.resp.streams.fields import column_contents, contents, fields_of
from penstock.model.message import FLAG_FIELDS, Extras, Signature

names = st.one_of(st.sampled_from([b"payload", b"a", b"b", b""]), st.binary(max_size=6))
texts = st.text(st.characters(exclude_characters="\ufffd", codec="utf-8"), max_size=6)
values = st.one_of(st.just(b""), st.binary(max_size=12), texts.map(str.encode))
pairs = st.lists(st.tuples(names, values), min_size=1, max_size=5)


def read_back(content, number):
    extras = content.extras[number] if content.extras else None
    return fields_of(content.payloads[number], FLAG_FIELDS * content.is_fields, extras)


@given(pairs, st.lists(values, min_size=1, max_size=4))
def test_reading_gives_the_fields_that_were_added(entry, last_values):
    """Whatever their names, bytes and order, and whatever else is in the run."""
    fields = [text for pair in entry for text in pair]
    content = contents(fields, last_values)
    for number, last in enumerate(last_values):
        assert read_back(content, number) == [*fields[:-1], last]


@given(st.lists(names, min_size=1, max_size=4), st.data())
def test_entries_with_the_same_names_are_the_same_together_as_alone(of_entries, data):
    rows = data.draw(st.lists(st.tuples(*[values for _ in of_entries]), min_size=1, max_size=6))
    columns = [list(column) for column in zip(*rows, strict=True)]
    together = column_contents(tuple(of_entries), columns)
    for number, row in enumerate(rows):
        fields = [text for pair in zip(of_entries, row, strict=True) for text in pair]
        assert read_back(together, number) == fields
        twice = contents(fields, [row[-1]] * 2)  # which has no template
        assert together.payloads[number] == twice.payloads[0]
        assert together.is_fields == twice.is_fields


def test_ordinary_text_is_in_the_json_as_it_is_and_all_else_is_escaped():
    found = column_contents((b"100%", b"b"), [[b"a", b'"', "é".encode()], [b"1", b"%b", b"\x7f"]])
    assert found == (
        [
            b'{"100%":"a","b":"1"}',
            b'{"100%":"\\"","b":"%b"}',
            '{"100%":"é","b":"\x7f"}'.encode(),
        ],
        None,
        True,
    )


@given(pairs, values)
def test_without_a_payload_field_the_payload_is_json(entry, last):
    entry = [(name.replace(b"payload", b"p"), value) for name, value in entry]
    content = contents([text for pair in entry for text in pair], [last])
    assert content.is_fields
    decoded = {shown(name): shown(value) for name, value in entry}
    decoded[shown(entry[-1][0])] = shown(last)
    assert json.loads(content.payloads[0]) == decoded


def shown(text):
    """What other protocols see of a text that may be none."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in text)


def test_the_payload_field_alone_is_a_plain_message():
    content = contents([b"payload", b""], [b"one", b"two"])
    assert content == ([b"one", b"two"], None, False)


def test_other_fields_beside_the_payload_are_headers():
    content = contents([b"payload", b"x", b"unit", b""], [b"C"])
    assert content == ([b"x"], [Extras(headers=((b"unit", b"C"),))], False)


def test_json_keeps_the_order_of_the_fields():
    content = contents([b"b", b"1", b"a", b""], [b'"2"'])
    assert content.payloads == [b'{"b":"1","a":"\\"2\\""}']


@pytest.mark.parametrize(
    ("fields", "last"), [([b"a", b""], b"\xff"), ([b"a", b"1", b"a", b""], b"2")]
)
def test_what_json_cannot_hold_is_kept_beside_it(fields, last):
    content = contents(fields, [last])
    assert content.is_fields
    assert content.extras[0].headers[-1] == (b"a", last)


def test_a_message_of_another_protocol_reads_as_payload_and_headers():
    assert fields_of(b"21.5", 1, None) == [b"payload", b"21.5"]
    extras = Extras(headers=((b"unit", b"C"), (b"payload", b"odd")))
    assert fields_of(b"x", 1, extras) == [b"payload", b"x", b"unit", b"C", b"payload", b"odd"]


def test_a_signed_message_shows_its_signature():
    extras = Extras(signature=Signature(1, 7, b"\x01" * 64))
    shown = [b"key_id", b"7", b"signature", b"01" * 64]
    assert fields_of(b"x", 1, extras) == [b"payload", b"x", *shown]
    extras = Extras(signature=Signature(2, 7, b"\x01" * 64, 1_234, b"\x02" * 8))
    shown += [b"signed_ms", b"1234", b"nonce", b"02" * 8]
    assert fields_of(b"x", 1, extras) == [b"payload", b"x", *shown]
