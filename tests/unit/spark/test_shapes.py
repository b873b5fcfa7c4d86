"""The shape of payloads is found whatever they are, and is the same however they are cut."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.pipelines import shapes
from penstock.spark.pipelines.shapes import Shape, decoded, drift, merged, misfit

DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


def shape(*documents):
    found = Shape()
    for each in documents:
        found.add(each if isinstance(each, bytes) else json.dumps(each).encode())
    return found


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"warm", "not JSON"),
        (b"NaN", "not JSON"),
        (b'{"a": 1} x', "not JSON"),
        (b'"\xff"', "not UTF-8"),
        (b"\x00\x01\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deep"),
        (b"21.5", ""),
        (b'{"a": [1, {"b": null}]}', ""),
    ],
)
def test_why_a_payload_cannot_be_read(payload, reason):
    assert decoded(payload)[1] == reason


@given(st.binary(max_size=50))
def test_no_payload_is_an_error(payload):
    shape(payload)


def test_fields_are_found_with_types_range_and_examples():
    found = shape({"t": 20, "id": "a"}, {"t": 21.5, "id": "b"}, {"t": None, "w": [{"psi": 3}]})
    assert found.fields["$.t"].types == {"integer": 1, "number": 1, "null": 1}
    assert (found.fields["$.t"].low, found.fields["$.t"].high) == (20, 21.5)
    assert found.fields["$.id"].examples == ["a", "b"]
    assert found.fields["$.w[].psi"].count == 1
    assert found.presence("$.id") == pytest.approx(2 / 3)


def test_what_cannot_be_read_is_counted_by_its_reason():
    found = shape(b"", b"{", b"{", {"a": 1})
    assert found.bad == {"empty": 1, "not JSON": 2}
    assert found.bad_rate == 0.75
    assert found.presence("$.a") == 1.0


def test_a_payload_with_many_fields_costs_no_more_than_is_allowed():
    found = shape({f"k{n}" * 100: n for n in range(1000)}, {"x" * 9999: "y" * 9999})
    assert len(found.fields) == shapes.FIELDS_MAX
    assert found.cut == 801
    assert max(map(len, found.fields)) <= shapes.KEY_CHARACTERS + 2


def test_what_lies_too_deep_is_not_looked_at():
    document = 1
    for _ in range(500):
        document = {"a": document}
    assert len(shape(document).fields) == shapes.DEPTH_MAX


@settings(max_examples=60)
@given(st.lists(DOCUMENTS, max_size=8), st.integers(0, 8))
def test_parts_merge_to_the_whole_in_any_order(documents, cut):
    one, other = shape(*documents[:cut]), shape(*documents[cut:])
    whole = merged([shape(*documents)])
    for both in (merged([one, other]), merged([other, one])):
        assert both.messages == whole.messages
        assert {p: (f.count, f.types, f.low, f.high) for p, f in both.fields.items()} == {
            p: (f.count, f.types, f.low, f.high) for p, f in whole.fields.items()
        }
    assert merged([one, other]) == merged([other, one])


@given(st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_a_shape_has_not_drifted_from_itself_and_fits_its_own_documents(documents):
    found = shape(*documents)
    assert drift(found, found) == []
    for document in documents:
        read, _ = decoded(json.dumps(document).encode())
        assert "is of type" not in misfit(found, read)


def test_drift_names_what_came_went_and_changed():
    before = shape({"t": 1, "u": 2, "v": 1.5}, {"t": 2, "u": 3, "v": 2.5})
    after = shape({"t": "warm", "n": 1, "v": 2}, {"t": None, "v": 3}, b"{")
    assert drift(before, after) == [
        "$.n is new",
        "$.t has values of type string; before: integer",
        "$.t is null in 50%; before: 0%",
        "$.u is gone",
        "unreadable: 0% before, 33% now",
    ]


def test_a_document_that_does_not_fit_is_told_by_its_first_difference():
    expected = shape({"t": 1.5, "id": "a"}, {"t": 2.5, "id": "b"})
    assert misfit(expected, {"t": 3, "id": "c"}) == ""
    assert misfit(expected, {"t": "warm", "id": "c"}) == "$.t is of type string"
    assert misfit(expected, {"t": 3}) == "$.id is missing"


def test_an_integer_larger_than_any_double_is_counted_and_bounds_nothing():
    found = shape({"a": 10**400}, {"a": 7}, {"a": -(10**309)})
    kept = msgspec.json.decode(msgspec.json.encode(merged([found])), type=Shape)
    assert kept.fields["$.a"].types == {"integer": 3}
    assert (kept.fields["$.a"].low, kept.fields["$.a"].high) == (7, 7)
