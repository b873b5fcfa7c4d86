"""Signing and administration: versions, rules by topic, and a secret that is never shown."""

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError
from penstock.config.schema import Admin, Config, SigningRule

TOKEN = "correct-horse-battery"


def problem(flags):
    with pytest.raises(ConfigProblemsError) as caught:
        load(None, {}, flags)
    return str(caught.value)


def test_defaults_are_the_seeds_rule_and_both_versions():
    signing = Config().signing
    assert (signing.required, signing.versions, signing.window_s) == (("secure/*",), (1, 2), 300)


@pytest.mark.parametrize("written", ["2", "2,", [2], ["2"]])
def test_versions_may_be_numbers_or_text(written):
    assert load(None, {}, {"signing.versions": written}).config.signing.versions == (2,)


@pytest.mark.parametrize("written", ["3", [3], [True], ["1", "x"], [1.5], "", [], 2])
def test_versions_that_do_not_exist_are_refused(written):
    assert "signing.versions: must" in problem({"signing.versions": written})


def test_rules_are_read_from_a_file(tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[[signing.rules]]\nfilter = "a/+"\nversions = [2]\n[[signing.rules]]\nfilter = "b/*"'
    )
    assert load(str(file), {}, {}).config.signing.rules == (
        SigningRule(filter="a/+", versions=(2,), required=True),
        SigningRule(filter="b/*", versions=(), required=True),
    )


def test_mistake_in_a_rule_names_the_section_it_stands_in():
    assert "write [[signing.rules]] above each of them" in problem({"signing.rules": [1]})
    assert "signing.rules[0].bytes_max: unknown option" in problem(
        {"signing.rules": "[{filter = 'a', bytes_max = 1}]"}
    )
    assert "plant/+/commands" in problem({"signing.rules": "["})


@pytest.mark.parametrize(
    "token", ["short", "with a space in it", "nön-ascii-characters", "x" * 257, "tab\tin-the-token"]
)
def test_token_that_will_not_do_is_refused_without_showing_it(token):
    said = problem({"admin.token": token})
    assert "admin.token: must have 16 to 256" in said
    assert token not in said


def test_token_that_is_no_text_is_refused_without_showing_it(tmp_path):
    file = tmp_path / "penstock.toml"
    file.write_text("[admin]\ntoken = 1234567812345678")
    with pytest.raises(ConfigProblemsError) as caught:
        load(str(file), {}, {})
    assert "1234567812345678" not in str(caught.value)


@pytest.mark.parametrize("arguments", [[], ["admin"], ["admin.token"], ["--json"]])
def test_token_is_never_printed(arguments):
    environ = {"PENSTOCK_ADMIN_TOKEN": TOKEN}
    result = CliRunner().invoke(penstock, ["config", "explain", *arguments], env=environ)
    assert result.exit_code == 0
    assert "(hidden)" in result.stdout
    assert TOKEN not in result.output


def test_token_is_not_in_the_representation_of_the_configuration():
    assert TOKEN not in repr(Config(admin=Admin(token=TOKEN)))
    assert repr(Admin()) == "Admin(token='', token_file='', hosts=())"
