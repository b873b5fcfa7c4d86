"""The checkers: text in, complaints out. They know nothing of this project's files.

Each returns a list of complaints, empty when all is well, so that one run shows everything that is
wrong and the checkers can be tested on a few lines (``test_checks``). What ruff and mypy can check
is not checked here.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 700

CHANGELOG_HEADINGS = ("Safety and durability", "Incompatible", "Features", "Fixes", "Internals")
"""The headings of a release, in this order; empty ones are omitted."""

CLAUSE = re.compile(r"\bMQTT5?-\d+\.\d+\.\d+-\d+\b")

# Written in pieces, because these lines must pass their own check.
MACHINE_PATHS = [
    re.compile(rf"(?<![\w.~-])/{top}/\w")
    for top in ("ho" + "me", "ro" + "ot", "Us" + "ers", "wo" + "rk")
]
REGISTRY_HOSTS = [
    re.compile(rf"(?<![\w-]){name}\.{domain}\b")
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry.npmjs", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("crates", "io"),
        ("anaconda", "org"),
    )
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


# ── Source


def long_functions(source: str, lines_max: int = FUNCTION_LINES_MAX) -> list[str]:
    """Complain about functions with more lines than allowed, their docstring not counted."""
    functions = [n for n in ast.walk(ast.parse(source)) if isinstance(n, Function)]
    sizes = [(function.name, _lines(function)) for function in functions]
    return [f"{name} has {lines} lines" for name, lines in sizes if lines > lines_max]


def _lines(function: Function) -> int:
    assert function.end_lineno is not None
    whole = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return whole
    docstring = function.body[0]
    assert docstring.end_lineno is not None
    return whole - (docstring.end_lineno - docstring.lineno + 1)


def sleeps(source: str) -> list[str]:
    """Complain about sleeps of a fixed time, because a busy machine may need longer.

    In a ``while`` loop they separate two polls of a condition, and pass. So does a sleep of zero,
    which yields to other tasks.
    """
    if "sleep" not in source:  # most files; to parse all of them takes seconds
        return []
    tree = ast.parse(source)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    looking = {id(node) for loop in loops for node in ast.walk(loop)}
    return [
        f"line {node.lineno} sleeps: wait for an event"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node) not in looking and _is_pause(node)
    ]


def _is_pause(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "sleep" and [ast.unparse(argument) for argument in call.args] != ["0"]


def long_file(source: str, lines_max: int = FILE_LINES_MAX) -> list[str]:
    lines = len(source.splitlines())
    return [f"{lines} lines"] if lines > lines_max else []


def shadowed_annotations(source: str) -> list[str]:
    """Complain about annotations of a class that name one of its own methods or fields.

    From Python 3.14 on annotations are evaluated when they are asked for, in the finished class: in
    one with a property ``bytes``, a field of type ``bytes`` has the property as its type.
    """
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return [
        f"{one.name} has an annotation with its own {name}"
        for one in classes
        for name in sorted(_annotating(one) & _defined(one))
    ]


def _annotating(one: ast.ClassDef) -> set[str]:
    annotations = [field.annotation for field in one.body if isinstance(field, ast.AnnAssign)]
    parts = [part for annotation in annotations for part in ast.walk(annotation)]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _defined(one: ast.ClassDef) -> set[str]:
    names = {member.name for member in one.body if isinstance(member, Function)}
    for member in one.body:
        targets = member.targets if isinstance(member, ast.Assign) else []
        if isinstance(member, ast.AnnAssign) and member.value is not None:
            targets = [member.target]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def missing_theory(source: str) -> list[str]:
    """Complain about a module whose docstring is not at least one sentence."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    first = docstring.partition("\n")[0]
    return (
        []
        if " " in first and first.rstrip("*`").endswith((".", ":", "?", ")"))
        else ["the docstring does not begin with a sentence"]
    )


def untested_clauses(sources: Iterable[str], tests: Iterable[str]) -> list[str]:
    """Complain about clauses of the standard that the source cites and no test mentions.

    Tests write those of 5.0 as the standard does, behind ``proves5``.
    """
    cited = {clause.replace("MQTT5", "MQTT") for text in sources for clause in CLAUSE.findall(text)}
    tested = {clause for text in tests for clause in CLAUSE.findall(text)}
    return sorted(cited - tested)


def unused_members(enum: str, members: Iterable[str], sources: Iterable[str]) -> list[str]:
    """Complain about members of an enumeration that no source names."""
    used = {name for text in sources for name in re.findall(rf"\b{enum}\.(\w+)", text)}
    return [f"{enum}.{member}" for member in members if member not in used]


# ── Documents


def private_names(text: str) -> list[str]:
    """Complain about paths of a developer's machine and hosts of package registries."""
    patterns = MACHINE_PATHS + REGISTRY_HOSTS
    return [match.group() for pattern in patterns for match in pattern.finditer(text)]


def foreign_installs(text: str) -> list[str]:
    """Complain about ``pip install penstock``: on the package index that is another project."""
    return re.findall(
        r"(?<!not run `)pip install (?:-\S+ )*['\"]?penstock(?![-\w])[^\n]{0,10}", text
    )


def broken_links(page: Path, text: str) -> list[str]:
    """Complain about relative links whose file or heading does not exist."""
    return [target for target in _targets(text) if not _resolves(page, text, target)]


def _targets(text: str) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)(?: \"[^\"]*\")?\)", _without_code(text))
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def _resolves(page: Path, text: str, target: str) -> bool:
    path, _, heading = target.partition("#")
    file = page.parent / path if path else page
    if not file.exists():
        return False
    if not heading or file.suffix != ".md":
        return True
    return heading in headings(file.read_text(encoding="utf-8") if path else text)


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as forges make them."""
    titles = re.findall(r"^#+ +(.+?)\s*$", _without_code(text, inline=False), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _without_code(text: str, *, inline: bool = True) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text) if inline else text


def changelog_faults(text: str) -> list[str]:
    """Complain about headings of a release that are unknown, duplicate or out of order."""
    releases = re.split(r"^## +", text, flags=re.MULTILINE)[1:]
    if not releases:
        return ["no release"]
    return [fault for release in releases for fault in _release_faults(release)]


def _release_faults(release: str) -> list[str]:
    name = release.partition("\n")[0].strip()
    found = re.findall(r"^### +(.+?)\s*$", release, re.MULTILINE)
    if not found:
        return [f"{name}: no heading"]
    unknown = [f"{name}: unknown heading {h}" for h in found if h not in CHANGELOG_HEADINGS]
    known = [CHANGELOG_HEADINGS.index(h) for h in found if h in CHANGELOG_HEADINGS]
    ordered = all(a < b for a, b in pairwise(known))
    return unknown + ([] if ordered else [f"{name}: headings out of order"])


# ── Showing


def report(complaints: Mapping[str, list[str]]) -> str:
    """Return one line per complaint, with the file in front; empty if there is none."""
    return "\n".join(f"{file}: {text}" for file, texts in complaints.items() for text in texts)
