"""The command itself: lazy subcommands, exit codes, and what the user sees of an error."""

import inspect
import os
import socket
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from penstock import __version__, cli
from penstock.client.queue import link
from penstock.errors import StorageLocked

PASSED = {"broker", "target", "loaded", "properties", "context"}
"""What decorators make of options, and click itself."""


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


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["sevre"], "Did you mean serve?"),
        (["pbu"], "Did you mean pub?"),
        (["publish"], "Did you mean pub?"),
        (["queue", "lits"], "Did you mean list?"),
        (["groups", "rm"], "Did you mean delete?"),
        (["spark", "dockter"], "Did you mean doctor?"),
        (["xyz"], "No such command 'xyz'."),
    ],
)
def test_of_an_unknown_command_the_nearest_is_offered(words, hint):
    result = CliRunner().invoke(cli.penstock, words)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"{hint}\n")


def test_main_exits_with_the_status_of_the_command(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"penstock {__version__}\n"


@pytest.mark.parametrize("words", [["sevre"], ["pub", "-q", "9"], ["serve", "--no-such"]])
def test_what_is_not_understood_ends_with_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("penstock qu", "queue"),
        ("penstock cluster tr", "try"),
        ("penstock clients ki", "kick"),
        ("penstock groups sh", "show"),
        ("penstock sub --fr", "--from"),
    ],
)
def test_shells_complete_commands_and_options(words, found):
    """As the scripts do that docs/clients/command-line.md has shells read."""
    program = "from penstock.cli import main; main()"
    asked = {"_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked | {"COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"plain,{found}" in done.stdout.splitlines()


def every_command(command=cli.penstock, path=()):
    """Every command, by the words that call it."""
    yield path
    if isinstance(command, click.Group):
        for name in command.list_commands(None):
            yield from every_command(command.get_command(None, name), (*path, name))


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_h_is_never_help_and_says_what_is(path, capsys):
    """Help for one command and the host for the next would be a trap."""
    with pytest.raises(SystemExit) as caught:
        cli.main([*path, "-h"])
    assert caught.value.code == 2
    assert "-h is the host; --help shows the options." in capsys.readouterr().err


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_a_command_is_called_with_all_that_it_needs(path):
    command = cli.penstock
    for name in path:
        command = command.get_command(None, name)
    if command.callback is None:
        return
    function = inspect.signature(inspect.unwrap(command.callback))
    needed = {
        name
        for name, parameter in function.parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    }
    options = {parameter.name for parameter in command.params if parameter.expose_value}
    assert needed - options <= PASSED


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


@pytest.mark.parametrize(
    "command",
    [
        ["topics"],
        ["read", "t"],
        ["sub", "t", "--from", "earliest"],
        ["queue", "push", "t", "x"],
        ["queue", "list"],
        ["status"],
    ],
    ids=" ".join,
)
def test_an_absent_broker_is_said_at_once_and_by_every_command_alike(monkeypatch, command):
    def tried_again(_pause_s):
        raise AssertionError("the user is kept waiting")

    monkeypatch.setattr(link, "sleep", tried_again)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    result = CliRunner().invoke(cli.penstock, [*command, "-p", str(port)])
    assert (result.exit_code, result.stdout) == (1, "")
    line = (
        f"penstock: no broker is listening on 127.0.0.1:{port}; start one with `penstock serve`\n"
    )
    assert result.stderr == line


@pytest.mark.parametrize("option", ["-p", "--port", "--host"])
def test_who_tells_a_broker_its_address_as_a_client_is_told_about_listen(option):
    result = CliRunner().invoke(cli.penstock, ["serve", option, "1884"])
    assert result.exit_code == 2
    assert "--listen HOST:PORT, as in --listen 127.0.0.1:1884" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_what_makes_it_ask_for_completions(shell):
    result = CliRunner().invoke(cli.penstock, ["completion", shell], prog_name="penstock")
    assert result.exit_code == 0
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in result.output
