"""What is wrong with a configuration, said so that it can be put right at once.

The loader gathers problems and raises them together: an operator who has made three mistakes
should not need four attempts.
"""

from typing import Literal

import msgspec

from penstock.errors import ConfigError


class Origin(msgspec.Struct, frozen=True):
    """Where a value was given."""

    kind: Literal["default", "file", "environment", "flag"]
    name: str = ""
    """The file's path or the variable's name."""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        column = f"column {self.column}" if self.column else ""
        return " ".join(part for part in (self.kind, self.name, line, column) if part)


DEFAULT = Origin("default")


class ConfigFault(Exception):  # noqa: N818 - internal: a problem before it is known where it stands
    """A value cannot be used; ``advice`` says what to write instead."""

    def __init__(self, what: str, advice: str = "", key: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.key = key
        """The key at fault, where it is not plain from who raises."""


def faults_in(group: BaseExceptionGroup[ConfigFault]) -> list[ConfigFault]:
    """The faults of a group, however deep, in order."""
    found: list[ConfigFault] = []
    for member in group.exceptions:
        found += faults_in(member) if isinstance(member, BaseExceptionGroup) else [member]
    return found


def did_you_mean(name: str) -> str:
    """The advice for a misspelt word, where a likely one was found."""
    return f"did you mean {name}?" if name else ""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, where, and what to do about it."""

    origin: Origin
    key: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        head = ": ".join(part for part in (str(self.origin), self.key, self.what) if part)
        return f"{head}\n  {self.advice}" if self.advice else head


class ConfigProblemsError(ConfigError):
    """The configuration cannot be used; ``problems`` holds everything that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
