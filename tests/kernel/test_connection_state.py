"""Both forms of a connection's fields keep what they are given."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.forms import interpreted

from penstock.kernel.connection_state import ConnectionState

(python,) = interpreted("penstock.net.connection_state")

TIMES = ("_checked_next", "_last_packet_at", "_unknown_since")
NAMES = python.ConnectionState.__slots__


def values_of(name):
    if name in TIMES:
        return st.floats(0, allow_nan=False) | st.just(inf)
    if name == "_blocks":
        return st.integers(0, 1_000_000)
    if name.startswith(("_is", "_has")):
        return st.booleans()
    return st.none() | st.integers() | st.binary() | st.tuples(st.text())


FIELDS = st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), values_of(name)))


@given(st.lists(FIELDS))
def test_both_forms_keep_the_same(fields):
    forms = python.ConnectionState(), ConnectionState()
    known = {}
    for name, value in fields:
        known[name] = value
        for form in forms:
            setattr(form, name, value)
    for form in forms:
        assert {name: getattr(form, name) for name in known} == known


def test_neither_form_has_other_fields():
    assert {name for name in dir(ConnectionState) if not name.startswith("__")} == set(NAMES)
    for form in python.ConnectionState(), ConnectionState():
        with pytest.raises(AttributeError):
            form.something_else = 1
