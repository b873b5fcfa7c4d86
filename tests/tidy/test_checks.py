"""The checkers complain about what is wrong, and about nothing else."""

import pytest

from tests.tidy import checks

# ── Sizes


def function(lines, docstring=""):
    return "def f():\n" + docstring + "    pass\n" * (lines - 1)


def test_a_function_of_the_limit_passes_and_one_line_more_does_not():
    assert checks.long_functions(function(70)) == []
    assert checks.long_functions(function(71)) == ["f has 71 lines"]


def test_the_docstring_of_a_function_does_not_count():
    assert checks.long_functions(function(70, '    """One.\n\n    Two.\n    """\n')) == []


def test_methods_and_coroutines_are_functions():
    source = "class C:\n    async def m(self):\n" + "        pass\n" * 3
    assert checks.long_functions(source, lines_max=3) == ["m has 4 lines"]


@pytest.mark.parametrize(
    "source",
    [
        "await asyncio.sleep(0)",
        "while not found():\n    time.sleep(0.01)",
        "while True:\n    for _ in x:\n        if y:\n            await sleep(1)",
        "sleepy(1)",
    ],
)
def test_looking_again_after_a_pause_passes(source):
    assert checks.sleeps(source) == []


@pytest.mark.parametrize(
    "source", ["time.sleep(0.1)", "await asyncio.sleep(x)", "for _ in x:\n    sleep(1)", "sleep()"]
)
def test_waiting_for_time_is_found(source):
    [found] = checks.sleeps(source)
    assert "wait for an event" in found


def test_a_file_of_the_limit_passes_and_one_line_more_does_not():
    assert checks.long_file("x\n" * 700) == []
    assert checks.long_file("x\n" * 701) == ["701 lines"]


# ── Annotations


@pytest.mark.parametrize(
    "member", ["def bytes(self): ...", "bytes = 1", "bytes: int = 1"], ids=["method", "", "field"]
)
def test_an_annotation_with_a_name_of_its_own_class_is_found(member):
    source = f"class Message:\n    payload: list[bytes]\n    {member}\n"
    assert checks.shadowed_annotations(source) == ["Message has an annotation with its own bytes"]


def test_an_annotation_with_other_names_passes():
    source = "class Message:\n    size: int\n    payload: bytes = b''\n    def f(self): ...\n"
    assert checks.shadowed_annotations(source) == []


# ── Docstrings


@pytest.mark.parametrize("docstring", ['"""Says what it is."""', '"""Two lines:\n\nmore."""'])
def test_a_docstring_of_a_sentence_passes(docstring):
    assert checks.missing_theory(docstring) == []


@pytest.mark.parametrize("source", ["", "x = 1", '"""Name."""', '"""No end"""'])
def test_a_module_without_a_sentence_is_found(source):
    assert checks.missing_theory(source)


# ── Clauses and reasons


def test_a_clause_without_a_test_is_found():
    sources = ["pass  # [MQTT-9.9.9-1]", "pass  # [MQTT-9.9.9-2], [MQTT5-9.9.9-10]"]
    tests = ['{"clause": "MQTT-9.9.9-1"}', '"""[MQTT-9.9.9-10]"""']
    assert checks.untested_clauses(sources, tests) == ["MQTT-9.9.9-2"]


def test_a_member_that_nobody_names_is_found():
    sources = ["raise Lost(Reason.ONE)", "OtherReason.TWO, Reason.TWO_MORE"]
    assert checks.unused_members("Reason", ["ONE", "TWO"], sources) == ["Reason.TWO"]


# ── Documents


@pytest.mark.parametrize(
    "text",
    [
        "see " + "/ho" + "me/somebody/x",
        "(" + "/wo" + "rk/x)",
        "https://" + "pypi" + ".org/simple",
        "files." + "pythonhosted" + ".org",
        "FROM " + "docker" + ".io/python",
    ],
)
def test_private_names_are_found(text):
    assert len(checks.private_names(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["example.org/ho" + "me/x", "net/wo" + "rk/x", "~/wo" + "rk/x", "/proc/self", "docker io"],
)
def test_other_paths_and_hosts_pass(text):
    assert checks.private_names(text) == []


@pytest.mark.parametrize(
    "text", ["pip install 'penstock[spark]'", "pip install penstock", "pip install -U penstock\n"]
)
def test_installing_a_stranger_s_package_is_found(text):
    assert len(checks.foreign_installs(text)) == 1


@pytest.mark.parametrize(
    "text", ["pip install penstock-mq", "pip install '/path/penstock[spark]'", "pip install -e ."]
)
def test_other_installs_pass(text):
    assert checks.foreign_installs(text) == []


@pytest.fixture
def page(tmp_path):
    (tmp_path / "other.md").write_text("# Other page\n\n## `code` & more\n")
    (tmp_path / "file.py").write_text("")
    page = tmp_path / "page.md"
    page.touch()
    return page


@pytest.mark.parametrize(
    "text",
    [
        "[a](other.md)",
        "[a](other.md#other-page)",
        "[a](other.md#code--more)",
        "[a](file.py#L3)",
        "# Here\n[a](#here)",
        "[a](https://example.org/x)",
        "[a](mailto:x@example.org)",
        "`[a](gone.md)`",
        "```\n[a](gone.md)\n```\n",
    ],
)
def test_good_links_pass(page, text):
    assert checks.broken_links(page, text) == []


@pytest.mark.parametrize(
    "target", ["gone.md", "other.md#gone", "#gone", "../gone.md", "gone.md#other-page"]
)
def test_broken_links_are_found(page, target):
    assert checks.broken_links(page, f"[a]({target})") == [target]
    assert checks.broken_links(page, f"![an image]({target})") == [target]


def test_a_changelog_in_order_passes():
    text = "# Changelog\n\n## 0.1.0\n\n### Features\n\n* x\n\n### Internals\n\n* y\n"
    assert checks.changelog_faults(text) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# Changelog\n", "no release"),
        ("## 1\n\ntext\n", "1: no heading"),
        ("## 1\n### Stuff\n", "1: unknown heading Stuff"),
        ("## 1\n### Fixes\n### Features\n", "1: headings out of order"),
        ("## 1\n### Fixes\n### Fixes\n", "1: headings out of order"),
    ],
)
def test_a_changelog_out_of_order_is_found(text, fault):
    assert checks.changelog_faults(text) == [fault]


def test_a_report_has_a_line_per_complaint():
    assert checks.report({"a.py": ["one", "two"], "b.py": []}) == "a.py: one\na.py: two"
