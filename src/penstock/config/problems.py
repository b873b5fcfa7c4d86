"""Problems of a configuration. The loader collects them and raises all at once."""

from typing import Literal

import msgspec

from penstock.errors import ConfigError


class Origin(msgspec.Struct, frozen=True):
    """Where a value was set."""

    kind: Literal["default", "file", "environment", "flag"]
    name: str = ""  # path of the file or name of the variable
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        column = f"column {self.column}" if self.column else ""
        return " ".join(part for part in (self.kind, self.name, line, column) if part)


DEFAULT = Origin("default")


class ConfigFault(Exception):  # noqa: N818 - a problem whose origin is not known yet
    """An invalid value; ``key`` names the option if the raiser is not its decoder."""

    def __init__(self, what: str, advice: str = "", key: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.advice = advice
        self.key = key


def faults_in(group: BaseExceptionGroup[ConfigFault]) -> list[ConfigFault]:
    found: list[ConfigFault] = []
    for member in group.exceptions:
        found += faults_in(member) if isinstance(member, BaseExceptionGroup) else [member]
    return found


def did_you_mean(name: str) -> str:
    return f"did you mean {name}?" if name else ""


class Problem(msgspec.Struct, frozen=True):
    """A fault and its origin."""

    origin: Origin
    key: str
    what: str
    advice: str = ""

    def __str__(self) -> str:
        head = ": ".join(part for part in (str(self.origin), self.key, self.what) if part)
        return f"{head}\n  {self.advice}" if self.advice else head


class ConfigProblemsError(ConfigError):
    """The configuration is invalid; ``problems`` has everything that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
