"""Files of commands are read as they are meant."""

import pytest

from tests.raft.datadriven import VARIABLE, parse, trace_files


def only(text):
    (directive,) = parse(text)
    return directive


def test_names_single_values_and_lists_are_told_apart():
    directive = only("add-nodes 3 voters=(1, 2,3) index=10 idx=(_,5) none=()\n----\nok\n")
    assert directive.command == "add-nodes"
    assert directive.names == ("3", "none")
    assert directive.values("voters") == ("1", "2", "3")
    assert directive.values("idx") == ("_", "5")
    assert directive.value("index", "0") == "10"
    assert directive.value("absent", "0") == "0"


def test_the_text_ends_at_the_separator_and_what_is_expected_at_an_empty_line():
    first, second = parse("# note\n\nsimple\nv1 v2\n\nr3\n----\na\nb\n\n# more\nstatus 1\n----\n")
    assert (first.text, first.expected) == ("v1 v2\n\nr3\n", "a\nb\n")
    assert (second.text, second.expected, second.names) == ("", "", ("1",))
    assert (first.place, second.place) == ("text:3", "text:12")


@pytest.mark.parametrize(
    ("given", "is_set"), [("x=true", True), ("x", True), ("x=false", False), ("", False)]
)
def test_a_flag_is_set_by_its_name_or_by_true(given, is_set):
    assert only(f"do {given}\n----\n").flag("x") is is_set


@pytest.mark.parametrize("text", ["do x\n", "do x=(1\n----\n", "do =1\n----\n"])
def test_what_cannot_be_read_is_refused_with_its_place(text):
    with pytest.raises(AssertionError, match="text:1"):
        list(parse(text))


def test_absent_traces_are_skipped_with_the_way_to_set_it_right(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (parameter,) = trace_files("quorum/testdata")
    (mark,) = parameter.marks
    assert mark.name == "skip"
    assert VARIABLE in mark.kwargs["reason"]


def test_present_traces_are_named_by_file(monkeypatch, tmp_path):
    (tmp_path / "one.txt").write_text("do\n----\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (parameter,) = trace_files(".")
    assert (parameter.id, parameter.marks) == ("one", ())
