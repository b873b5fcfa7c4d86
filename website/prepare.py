"""From the documents of the repository to the input of the site generator.

The documents are written to be read in the repository: they link to each other, to examples, tests
and settings by relative paths. On the site

* every page keeps its place below ``docs/``, and the pages outside of it (contributing, changelog,
  security, benchmarks) stand in ``project/``;
* a linked file is copied as text to ``source/``, and a linked folder becomes a page that lists its
  files, so that no link leaves the site and all of it works offline;
* the navigation is that of ``docs/README.md``: its headings are the sections, its list the pages.
  So a page that the index forgets is missing there, and a test says so.
"""

import os
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

INDEX = "docs/README.md"
PROJECT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md")
LINK = re.compile(r"(?P<text>\[[^\]\n]*\])\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")
_LIST_ITEM = re.compile(r"^\s*([*-]|\d+\.) ")

Navigation = list[dict[str, "str | Navigation"]]


class Section(NamedTuple):
    """A heading of the index, and what is listed below it."""

    title: str
    pages: list[tuple[str, str]]  # title, path in the repository


def place(path: str) -> str:
    """Where a file or folder of the repository stands on the site."""
    if path == INDEX:
        return "index.md"
    if path in PROJECT_PAGES:
        name = path.lower().replace("/readme.md", ".md")
        return f"project/{name}"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.txt" if posixpath.splitext(path)[1] else f"source/{path}/index.md"


def resolve(page: str, target: str) -> tuple[str, str] | None:
    """Split a link of ``page`` into a path of the repository and an anchor; None: it leaves it."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
        return None
    path, _, anchor = target.partition("#")
    joined = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    return joined, f"#{anchor}" if anchor else ""


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """Give each line, and whether it is prose rather than code."""
    in_code = False
    for line in text.splitlines(keepends=True):
        if _FENCE.match(line.lstrip()):
            in_code = not in_code
            yield line, False
        else:
            yield line, not in_code


def rewrite(page: str, text: str) -> tuple[str, set[str]]:
    """Return a page as it stands on the site, and the files and folders that it links to."""
    linked: set[str] = set()
    here = posixpath.dirname(place(page))

    def link(match: re.Match[str]) -> str:
        resolved = resolve(page, match["target"])
        if resolved is None:
            return match[0]
        path, anchor = resolved
        linked.add(path)
        return f"{match['text']}({posixpath.relpath(place(path), here or '.')}{anchor})"

    lines: list[str] = []
    for line, is_prose in prose(text):
        # The generator's Markdown wants an empty line where a list follows a paragraph.
        if is_prose and lines and _LIST_ITEM.match(line) and _is_paragraph(lines[-1]):
            lines.append("\n")
        lines.append(LINK.sub(link, line) if is_prose else line)
    return "".join(lines), linked


def _is_paragraph(line: str) -> bool:
    return not (line[0].isspace() or _LIST_ITEM.match(line))


def sections(index: str) -> list[Section]:
    """Read the navigation from the index: the headings, and below each the links of its list."""
    found: list[Section] = []
    for line in index.splitlines():
        if line.startswith("## "):
            found.append(Section(line.removeprefix("## "), []))
        elif found:
            found[-1].pages.extend(_entries(line))
    return found


def _entries(line: str) -> Iterator[tuple[str, str]]:
    """Give the pages in one line of the index. A line with several names each by its link."""
    for match in LINK.finditer(line):
        resolved = resolve(INDEX, match["target"])
        if resolved and resolved[0].endswith(".md"):
            title = match["text"][1:-1]
            yield title[0].upper() + title[1:], resolved[0]


def navigation(index: str) -> Navigation:
    parts: Navigation = [{"Home": place(INDEX)}]
    for section in sections(index):
        parts.append({section.title: [{title: place(page)} for title, page in section.pages]})
    return parts


def prepare(root: Path, out: Path) -> Navigation:
    """Write the generator's input to ``out``, and return the navigation."""
    shutil.rmtree(out, ignore_errors=True)
    pages = [str(p.relative_to(root)) for p in (root / "docs").rglob("*.md")]
    linked: set[str] = set()
    for page in [*sorted(pages), *PROJECT_PAGES]:
        text, targets = rewrite(page, (root / page).read_text(encoding="utf-8"))
        write(out / place(page), text)
        linked |= targets
    for path in sorted(linked - {*pages, *PROJECT_PAGES}):
        _copy(root, path, out)
    return navigation((root / INDEX).read_text(encoding="utf-8"))


def _copy(root: Path, path: str, out: Path) -> None:
    source = root / path
    if source.is_dir():
        write(out / place(path), _listing(root, path, out))
    elif path.startswith("docs/"):  # a picture
        (out / place(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, out / place(path))
    else:
        write(out / place(path), source.read_text(encoding="utf-8"))


def _listing(root: Path, folder: str, out: Path) -> str:
    names = sorted(p.name for p in (root / folder).iterdir() if p.is_file())
    lines = [f"# {folder}", ""]
    for name in names:
        path = f"{folder}/{name}"
        write(out / f"source/{path}.txt", (root / path).read_text(encoding="utf-8"))
        lines.append(f"* [{name}]({name}.txt)")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (0, 0))  # the generator looks at times only; equal input, equal site
