"""Faults planted into the core, and whether they are noticed.

A fault is a change of a few words in a module's source. It is made while the module is imported, in a
process of its own, so that everything in there uses the faulty core under its own name: the
simulator, the replay of scripts, tests. Nothing is written anywhere.

What must notice a fault is named with it: seeds of the simulator, one of our scripts, or a
test. A fault that goes unnoticed is a test that is missing.
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

MALFORMED = (SyntaxError, NameError, AttributeError, TypeError, ImportError)
"""What a fault that was planted badly ends with: it is noticed by anything, and proves nothing."""


class Malformed(Exception):  # noqa: N818 - it is the fault that is
    """The fault was planted badly: it does not fit the source, or breaks it."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Words of a module and what stands there instead."""

    module: str
    old: str
    new: str

    def made(self, source: str) -> str:
        """Return the faulty source; the words must be there once."""
        found = source.count(self.old)
        if found != 1:
            raise Malformed(f"{self.module} has {found} times, not once: {self.old!r}")
        return source.replace(self.old, self.new)


def in_core(module: str, old: str, new: str) -> Patch:
    """Words of a module of the core."""
    return Patch(f"penstock.raft.{module}", old, new)


@dataclass(frozen=True, slots=True)
class Seeds:
    """Runs of the simulator: the first of them notices the fault, as things are.

    Any change of the core or of the simulator makes other histories of the same seeds, so the next
    ones may be tried, too.
    """

    first: int
    count: int = 60
    steps: int = 1500

    def complaint(self) -> str:
        """Return what the first one found that found anything, or nothing."""
        run = import_module("tests.raft.simulation").run
        for seed in range(self.first, self.first + self.count):
            if not (verdict := run(seed, self.steps)).is_ok:
                if re.search(
                    rf"^({'|'.join(m.__name__ for m in MALFORMED)}): ", verdict.fault, re.MULTILINE
                ):
                    raise Malformed(verdict.fault)
                return f"seed {seed}: {verdict.fault.splitlines()[-1]}"
        return ""


@dataclass(frozen=True, slots=True)
class Script:
    """A script of commands with what they print, ours."""

    name: str

    def complaint(self) -> str:
        """Return where it first prints something else, or nothing."""
        folder = Path(__file__).parent / "scenarios"
        try:
            import_module("tests.raft.scenario.runner").replay(folder / f"{self.name}.txt")
        except AssertionError as error:
            return str(error) or "it prints something else"
        return ""


@dataclass(frozen=True, slots=True)
class Check:
    """A test of the suite that needs no fixture."""

    module: str
    test: str

    def complaint(self) -> str:
        """Return how the test failed, or nothing."""
        try:
            getattr(import_module(f"tests.raft.{self.module}"), self.test)()
        except AssertionError as error:
            return str(error) or "the test failed"
        return ""


Notices = Seeds | Script | Check


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, where it is planted, and all that must notice it."""

    name: str
    patches: tuple[Patch, ...]
    noticed_by: tuple[Notices, ...]


def source_of(module: str) -> str:
    """The source of a module, found without importing the packages that it is in."""
    top, *rest = module.split(".")
    spec = find_spec(top)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    place = Path(spec.submodule_search_locations[0]).joinpath(*rest)
    return place.with_suffix(".py").read_text(encoding="utf-8")


def plant(patches: Sequence[Patch]) -> None:
    """Make this process import faulty modules; none of them may have been imported yet."""
    faulty: dict[str, str] = {}
    for patch in patches:
        assert patch.module not in sys.modules, f"{patch.module} is imported already"
        faulty[patch.module] = patch.made(faulty.get(patch.module) or source_of(patch.module))
    sys.meta_path.insert(0, _Finder(faulty))


class _Finder(MetaPathFinder):
    def __init__(self, faulty: dict[str, str]) -> None:
        self._faulty = faulty

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._faulty:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = _Loader(fullname, spec.origin, self._faulty[fullname])
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, source: str) -> None:
        super().__init__(fullname, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec")


def complaint_of(notices: Notices) -> str:
    """What is noticed, or nothing; any error of the core counts, unless it is badly planted."""
    try:
        return notices.complaint()
    except MALFORMED as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error
    except Malformed:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a faulty core ends with
        return f"{type(error).__name__}: {error}"
