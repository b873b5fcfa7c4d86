"""Read a script and compare what each command prints, to the letter."""

from difflib import ndiff
from pathlib import Path

from tests.raft.datadriven import Directive, directives
from tests.raft.scenario import commands
from tests.raft.scenario.environment import Environment


def replay(path: Path) -> None:
    """Carry out a script; stops at the first command that prints something else."""
    env = Environment()
    for directive in directives(path):
        printed = commands.run(env, directive)
        assert printed == directive.expected, _difference(directive, printed)


def _difference(directive: Directive, printed: str) -> str:
    lines = ndiff(directive.expected.splitlines(), printed.splitlines())
    return "\n".join([f"{directive.place}: {directive.command}", *lines])
