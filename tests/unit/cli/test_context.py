"""``penstock context``: a private file, and nothing secret in what is shown."""

import json
import stat

import pytest
from click.testing import CliRunner

from penstock.cli import contexts, penstock

SECRET = "a-secret-of-ann-0123456789"


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "config" / "contexts.toml"
    monkeypatch.setenv(contexts.FILE_VARIABLE, str(path))
    return path


def run(*words):
    return CliRunner().invoke(penstock, ["context", *map(str, words)])


def done(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_context_is_added_used_shown_and_removed(file, tmp_path):
    assert "no contexts" in done("list")
    done("add", "home", "--server", "127.0.0.1:1883")
    done(
        *("add", "plant", "--server", "a.example:1883", "--server", "b.example:1883"),
        *("--ca-file", "ca.crt", "--user", "ann", "--password-file", tmp_path / "password"),
    )
    shown = json.loads(done("list", "--json"))
    assert shown["current"] == "home"
    assert shown["contexts"]["plant"]["servers"] == ["a.example:1883", "b.example:1883"]
    assert shown["contexts"]["plant"]["tls"] is True
    assert shown["contexts"]["plant"]["ca_file"].startswith("/")  # commands run anywhere
    done("use", "plant")
    assert json.loads(done("show", "--json"))["user"] == "ann"
    done("remove", "plant")
    assert run("show").exit_code == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["contexts.toml"]


def test_a_context_is_replaced_only_if_forced():
    done("add", "home", "--server", "127.0.0.1:1883")
    assert "--force" in run("add", "home", "--server", "127.0.0.1:1884").output
    done("add", "home", "--server", "127.0.0.1:1884", "--force")
    assert "1884" in done("show", "home")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused(file, mode):
    done("add", "home", "--server", "127.0.0.1:1883")
    file.chmod(mode)
    for words in (["list"], ["use", "home"], ["add", "x", "--server", "h:1"]):
        result = run(*words)
        assert result.exit_code == 1
        assert "chmod 600" in result.output


@pytest.mark.parametrize(
    "content",
    [
        f'[contexts.x]\nservers = ["h:1"]\ntoken = "{SECRET}" oops',
        f'[contexts.x]\nservers = ["h:1"]\ntoken = ["{SECRET}"]',
        f'[contexts.x]\nservers = ["h:1"]\ntokken = "{SECRET}"',
        f'[contexts.x]\nservers = ["h"]\ntoken = "{SECRET}"',
        f'[contexts.x]\nservers = []\ntoken = "{SECRET}"',
        f'[contexts."x y"]\nservers = ["h:1"]\ntoken = "{SECRET}"',
        f'[contexts.x]\nservers = ["h:1"]\ntoken = "{SECRET}"\npassword = "x"',
    ],
)
def test_a_faulty_file_is_refused_without_showing_its_secrets(file, content):
    file.parent.mkdir()
    file.write_text(content)
    file.chmod(0o600)
    result = run("list")
    assert result.exit_code == 1
    assert "contexts.toml" in result.output or "penstock: context" in result.output
    assert SECRET not in result.output


def test_secrets_in_the_file_are_not_shown(file):
    file.parent.mkdir()
    file.write_text(
        f'current = "x"\n[contexts.x]\nservers = ["h:1"]\nuser = "ann"\npassword = "{SECRET}"\n'
    )
    file.chmod(0o600)
    for words in (["list"], ["list", "--json"], ["show"], ["show", "--json"]):
        assert SECRET not in done(*words)
    assert SECRET not in repr(contexts.load_contexts())
    done("add", "y", "--server", "h:2")  # and they are kept
    assert contexts.load_contexts().named("x").password == SECRET


def test_names_and_files_with_strange_characters_survive(tmp_path):
    strange = 'a "quoted"\\ name\t\x7fü'
    done("add", "x", "--server", "h:1", "--ca-file", tmp_path / strange)
    assert json.loads(done("show", "x", "--json"))["ca_file"] == str(tmp_path / strange)
