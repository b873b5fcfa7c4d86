"""The command itself: lazy subcommands, exit codes, and what the user sees of an error."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from penstock import __version__, cli
from penstock.errors import StorageLocked


def failing_with(monkeypatch, error):
    """Put a command in the table that raises ``error``."""

    @click.command()
    def failing():
        raise error

    monkeypatch.setattr(cli, "failing", failing, raising=False)
    monkeypatch.setitem(cli.COMMANDS, "failing", ("penstock.cli:failing", ""))
    return CliRunner().invoke(cli.penstock, ["failing"])


def test_error_is_said_in_plain_lines_with_its_advice(monkeypatch):
    result = failing_with(monkeypatch, StorageLocked("data is in use", "stop the other broker"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "penstock: data is in use\n  stop the other broker\n"


def test_interrupt_ends_with_130_and_says_nothing(monkeypatch):
    result = failing_with(monkeypatch, KeyboardInterrupt())
    assert (result.exit_code, result.output) == (130, "")


def test_bug_keeps_its_traceback(monkeypatch):
    assert isinstance(failing_with(monkeypatch, ZeroDivisionError()).exception, ZeroDivisionError)


def test_version_is_printed():
    assert CliRunner().invoke(cli.penstock, ["--version"]).stdout == f"penstock {__version__}\n"


def test_unknown_command_is_a_usage_error():
    assert CliRunner().invoke(cli.penstock, ["sevre"]).exit_code == 2


def test_main_exits_with_the_status_of_the_command(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"penstock {__version__}\n"


def every_group(group=cli.penstock, path=()):
    """Every group of commands, by the words that call it."""
    yield path
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from every_group(command, (*path, name))


@pytest.mark.parametrize("path", list(every_group()), ids=" ".join)
def test_in_a_list_of_commands_each_is_told_in_a_whole_sentence(path):
    shown = CliRunner().invoke(cli.penstock, [*path, "--help"], terminal_width=80).stdout
    lines = shown.partition("\nCommands:\n")[2].splitlines()
    assert lines
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("group", ["queue", "groups", "dlq", "keys"])
def test_h_is_the_host_and_never_help_where_a_broker_is_asked(group):
    """Help for one and the host for the other would be a trap."""
    assert CliRunner().invoke(cli.penstock, [group, "-h"]).exit_code == 2
    assert "-h, --host" in CliRunner().invoke(cli.penstock, [group, "list", "--help"]).stdout


def test_help_lists_all_commands_and_imports_none():
    """A fresh interpreter tells what was imported; in this one anything may have been."""
    program = (
        "import sys; from penstock.cli import penstock\n"
        "penstock.main(['--help'], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.startswith('penstock')))"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert all(f"\n  {name} " in output for name in cli.COMMANDS)
    assert output.endswith("['penstock', 'penstock.cli', 'penstock.cli.lazy', 'penstock.errors']\n")
