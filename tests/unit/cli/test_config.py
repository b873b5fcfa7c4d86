"""``penstock config``, run in this process."""

import json
import os

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.config.example import example_toml
from penstock.config.keys import KEYS
from penstock.config.schema import Config


@pytest.fixture
def run(monkeypatch, tmp_path):
    for variable in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, file=None, **environ):
        if file is not None:
            (tmp_path / "p.toml").write_text(file)
        return CliRunner().invoke(penstock, ["config", *arguments], env=environ)

    return invoke


@pytest.mark.parametrize(
    ("file", "given"),
    [
        ("", "all options have their defaults"),
        ("data = 'x'", "1 option set, all others have their defaults"),
        ("log.level='info'\ndata='x'", "2 options set, all others have their defaults"),
    ],
)
def test_check_says_that_all_is_well(run, file, given):
    result = run("check", "p.toml", file=file)
    assert result.stdout == f"ok: p.toml: {given}\n"
    assert result.exit_code == 0


def test_check_prints_all_problems_without_a_traceback(run):
    result = run("check", "p.toml", file="dta = 1\n[limits]\nclients_max = 0")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr == (
        "penstock: file p.toml line 1: dta: unknown option\n  did you mean data?\n"
        "file p.toml line 3: limits.clients_max: must be 1 to 1_000_000, not 0\n"
    )


def test_check_counts_the_environment_in(run):
    assert run("check", PENSTOCK_LIMITS_CLIENTS_MAX="7").stdout.startswith(
        "ok: no file: 1 option set"
    )
    assert run("check", PENSTOCK_LIMITS_CLIENTS_MAX="0").exit_code == 1


def test_check_as_json_names_file_line_key_and_advice(run):
    result = run("check", "p.toml", "--json", file="\ndta = 1")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "ok": False,
        "problems": [
            {
                "source": "file p.toml line 2",
                "file": "p.toml",
                "line": 2,
                "key": "dta",
                "problem": "unknown option",
                "advice": "did you mean data?",
            }
        ],
    }
    well = run("check", "--json")
    assert json.loads(well.stdout) == {"ok": True, "problems": []}
    assert well.exit_code == 0


def test_explain_lists_every_key_with_value_and_source(run):
    result = run(
        "explain", "--config", "p.toml", "--max-clients", "5",
        file="[limits]\ninflight_max = 9", PENSTOCK_LOG_LEVEL="debug",
    )  # fmt: skip
    rows = {row.split()[0]: row.split(maxsplit=1)[1].strip() for row in result.stdout.splitlines()}
    assert list(rows) == list(KEYS)
    assert rows["limits.clients_max"].split(maxsplit=1) == ["5", "flag"]
    assert rows["limits.inflight_max"].split(maxsplit=1) == ["9", "file p.toml line 2"]
    assert rows["log.level"].split(maxsplit=1) == ['"debug"', "environment PENSTOCK_LOG_LEVEL"]
    assert rows["shutdown.timeout_s"].split(maxsplit=1) == ['"30s"', "default"]


def test_explain_tells_everything_about_one_key(run):
    result = run("explain", "limits.clients_max", "--set", "limits.clients_max=12")
    assert result.stdout == (
        "limits.clients_max\n"
        "  Maximum number of connections, all protocols.\n\n"
        "  type         whole number\n"
        "  default      10_000\n"
        "  range        1 to 1_000_000\n"
        "  environment  PENSTOCK_LIMITS_CLIENTS_MAX\n"
        "  flag         --max-clients\n"
        "  value        12\n"
        "  source       flag\n"
    )


def test_explain_lists_the_keys_of_a_section(run):
    names = [name for name in KEYS if name.startswith("limits.")]
    result = run("explain", "limits")
    assert [row.split()[0] for row in result.stdout.splitlines()] == names
    facts = json.loads(run("explain", "limits", "--json").stdout)
    assert [each["key"] for each in facts] == names


def test_explain_as_json_is_one_object_or_all(run):
    one = json.loads(run("explain", "log.level", "--json").stdout)
    assert (one["value"], one["source"], one["flag"]) == ("info", "default", "--log-level")
    rules = {"PENSTOCK_RETENTION_RULES": "[{filter = '#'}]"}
    everything = json.loads(run("explain", "--json", **rules).stdout)
    assert [facts["key"] for facts in everything] == list(KEYS)
    (facts,) = [facts for facts in everything if facts["key"] == "retention.rules"]
    assert facts["value"][0]["filter"] == "#"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("session_expiry", "limits.session_expiry_s"),
        ("inflight", "limits.inflight_max"),
        ("log.clients_max", "limits.clients_max"),
        ("limit", "limits"),
    ],
)
def test_explain_suggests_the_key_that_was_meant(run, written, meant):
    result = run("explain", written)
    assert result.exit_code == 1
    said = f"penstock: {written}: unknown option or section\n  did you mean {meant}?\n"
    assert result.stderr == said


LISTED = "\n  penstock config explain lists all options; penstock config explain OPTION shows its variable\n"


def test_explain_does_not_guess_too_far(run):
    said = run("explain", "limits.nope").stderr
    assert said == f"penstock: limits.nope: unknown option or section{LISTED}"


@pytest.mark.parametrize(
    ("arguments", "environ", "problem", "status"),
    [
        (["explain", "--set", "limits.zzz=1"], {}, "flag: limits.zzz: unknown option", 2),
        (["check"], {"PENSTOCK_ZZZ": "1"}, "environment PENSTOCK_ZZZ: unknown option", 1),
    ],
)
def test_name_that_resembles_none_is_told_where_all_are(run, arguments, environ, problem, status):
    result = run(*arguments, **environ)
    assert result.exit_code == status
    assert result.stderr == f"penstock: {problem}{LISTED}"


def test_problem_that_is_not_about_a_name_needs_no_list(run):
    result = run("explain", "--set", "limits.clients_max=0")
    assert result.exit_code == 2
    assert "config explain" not in result.stderr


def test_example_is_printed(run):
    assert run("example").stdout == example_toml()


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["--listen", "127.0.0.1:1", "--listen", "[::1]:2,[::1]:3"], "listen",
         ["127.0.0.1:1", "[::1]:2", "[::1]:3"]),
        (["--http-listen", ""], "http_listen", []),
        (["--data", "elsewhere"], "data", "elsewhere"),
        (["--allow-anonymous", "--listen", "0.0.0.0:1"], "allow_anonymous", True),
        (["--no-allow-anonymous"], "allow_anonymous", False),
        (["--durability", "interval"], "durability", "interval"),
        (["--max-clients", "3"], "limits.clients_max", 3),
        (["--log-level", "error"], "log.level", "error"),
        (["--log-format", "json"], "log.format", "json"),
        (["--set", "limits.session_expiry_s = 2h"], "limits.session_expiry_s", 7200),
        (["--set", "log.level=debug", "--set", "sys.interval_s=0"], "sys.interval_s", 0),
    ],
)  # fmt: skip
def test_each_flag_sets_its_key(run, arguments, key, value):
    facts = json.loads(run("explain", key, "--json", *arguments).stdout)
    assert (facts["value"], facts["source"]) == (value, "flag")


def test_flags_that_are_not_given_set_nothing(run):
    facts = json.loads(run("explain", "--json").stdout)
    assert {fact["source"] for fact in facts} == {"default"}
    assert facts[0]["value"] == Config().data


def test_setting_without_a_value_is_a_usage_error(run):
    result = run("explain", "--set", "limits.clients_max")
    assert result.exit_code == 2
    assert "--set takes KEY=VALUE" in result.stderr
