"""The errors of the binary protocol: one list, from which the broker, its clients and docs draw."""

import ast
from pathlib import Path

import pytest
from tests.generate import ROOT

import penstock.doors.binary as door
from penstock.core.owners import OWNED_BY_ANOTHER
from penstock.doors.binary.connection import _LAST_ERRORS
from penstock.doors.binary.publishing import _CODES
from penstock.trust.faults import SignatureFault, SignatureRefusal
from penstock.wire.binary.errors import (
    ErrorCode,
    ErrorKind,
    code_of_text,
    code_of_word,
    fault,
)
from penstock.wire.binary.frame import ERROR_BYTES_MAX

PAGE = "docs/reference/binary-protocol.md"


@pytest.mark.parametrize("code", ErrorCode)
def test_a_text_and_a_word_are_recognised(code):
    places = ast.literal_eval(repr(dict.fromkeys(("why", "topic", "count", "command"), "it's {x}")))
    text = fault(code, **places).text
    assert code_of_text(text) is code
    assert code_of_word(code.word) is code
    assert len(code.text.encode()) <= ERROR_BYTES_MAX // 2  # the rest is for what fills the places


def test_other_texts_and_words_are_nothing():
    assert code_of_text("Out of coffee") is None
    assert code_of_word("out_of_coffee") is None


@pytest.mark.parametrize("code", ErrorCode)
def test_each_error_is_documented_with_its_kind(code):
    row = f"| `{code.word}` | {code.kind} | {code.remedy} |"
    assert row in (ROOT / PAGE).read_text("utf-8")


@pytest.mark.parametrize("reason", _LAST_ERRORS)
def test_what_is_sent_before_the_end_is_a_farewell(reason):
    assert _LAST_ERRORS[reason].kind is ErrorKind.FAREWELL


def test_every_farewell_is_sent():
    others = {ErrorCode.FOREIGN_CLIENT_ID}  # told by the fold, not with a reason to close
    farewells = {code for code in ErrorCode if code.kind is ErrorKind.FAREWELL}
    assert farewells == {*_LAST_ERRORS.values(), *others}
    assert ErrorCode.FOREIGN_CLIENT_ID.text.endswith(OWNED_BY_ANOTHER)


@pytest.mark.parametrize("reason", set(SignatureFault) - {SignatureFault.PROTECTED})
def test_the_text_of_a_refused_signature_is_in_the_list(reason):
    text = SignatureRefusal.of(reason, b"secure/pump").text
    assert code_of_text(text) is _CODES[reason]


def test_the_door_sends_no_error_that_is_not_in_the_list():
    """``encode`` takes any text; only one place of the door calls it, with a ``Fault``."""
    calls = [
        (path.name, ast.unparse(node))
        for path in sorted(Path(door.__file__).parent.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "encode.error"
    ]
    assert calls == [("terms.py", "encode.error(error.text)")]
