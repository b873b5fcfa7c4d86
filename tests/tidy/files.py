"""The files of this project, for the checkers."""

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.tidy.checks import report

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
TESTS = ROOT / "tests"


def python_files(*folders: Path) -> list[Path]:
    return sorted(file for folder in folders for file in folder.rglob("*.py"))


def tracked_files() -> list[Path]:
    """Return the files of the repository that hold text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()]


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def complaints(files: Iterable[Path], check: Callable[[str], list[str]]) -> str:
    """Return the complaints of a checker about these files, one line each."""
    return report({str(file.relative_to(ROOT)): check(read(file)) for file in files})
