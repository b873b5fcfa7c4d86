"""redis-cli, the tool that people try a server with first."""

import os
import pty
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("redis-cli"), reason="redis-cli is not installed")

TIMEOUT_S = 20


@pytest.fixture
def cli(broker):
    """Run it: ``cli("PING")``, with further options before the command."""

    def run(*arguments, given=None):
        command = ["redis-cli", "-h", broker.host, "-p", str(broker.port), *arguments]
        result = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
        )
        return result.stdout

    return run


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_single_commands(cli, unique, protocol):
    assert cli(protocol, "PING") == "PONG\n"
    assert cli(protocol, "publish", unique, "x") == "0\n"
    assert "unknown command 'nonsense'" in cli(protocol, "nonsense")
    assert "redis_version:" in cli(protocol, "INFO", "server")


def test_commands_from_standard_input(cli):
    assert cli(given="PING\nECHO 'a b'\n") == "PONG\na b\n"


def test_many_messages_through_a_pipe(cli, unique):
    commands = "".join(f"PUBLISH {unique} {number}\r\n" for number in range(1_000))
    assert "errors: 0, replies: 1000" in cli("--pipe", given=commands)


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_subscribing_shows_what_comes(broker, cli, unique, protocol):
    cli("PUBLISH", unique, "before")
    command = ["redis-cli", "-h", broker.host, "-p", str(broker.port), protocol]
    with subprocess.Popen(
        [*command, "SUBSCRIBE", unique], stdout=subprocess.PIPE, text=True
    ) as listener:
        assert listener.stdout is not None
        lines = [listener.stdout.readline().strip() for _ in range(3)]
        assert lines == ["subscribe", unique, "1"]
        assert cli("PUBLISH", unique, "fresh") == "1\n"
        assert [listener.stdout.readline().strip() for _ in range(3)] == [
            "message",
            unique,
            "fresh",
        ]
        listener.terminate()


def test_at_a_terminal_it_asks_for_the_commands_and_gives_help(broker, tmp_path):
    """Interactively it fetches COMMAND DOCS first, and builds its help and hints from that."""
    ours, its = pty.openpty()
    command = ["redis-cli", "-h", broker.host, "-p", str(broker.port)]
    environment = {**os.environ, "TERM": "dumb", "REDISCLI_HISTFILE": str(tmp_path / "history")}
    with subprocess.Popen(
        command, stdin=its, stdout=subprocess.PIPE, text=True, env=environment
    ) as session:
        os.write(ours, b"help publish\nping\nquit\n")
        said, _ = session.communicate(timeout=TIMEOUT_S)
    os.close(ours)
    os.close(its)
    assert "Send a message to all subscribe" in said
    assert "PONG" in said
    assert session.returncode == 0
