"""What must hold of every key, and of the pages made from them."""

import re
import tomllib

import pytest
from tests.configuration_page import markdown

from penstock.config.example import example_toml, type_of
from penstock.config.keys import KEYS, RULE_KEYS
from penstock.config.load import FILE_VARIABLE, load
from penstock.config.schema import Config
from penstock.config.values import decode, encode

ALL_KEYS = [*KEYS.values(), *(key for keys in RULE_KEYS.values() for key in keys.values())]


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: key.name)
def test_key_is_explained_in_one_sentence_and_numbers_have_bounds(key):
    assert re.fullmatch(r"[A-Z][^\n]*\.", key.text)
    assert (key.kind in {"integer", "number"}) == (key.low is not None and key.high is not None)
    assert type_of(key)


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_default_passes_the_checks_of_its_own_key(key):
    assert decode(key, key.default) == key.default
    assert decode(key, tomllib.loads(f"x = {encode(key, key.default)}")["x"]) == key.default


def test_environment_variables_are_all_different():
    assert len({key.environment for key in KEYS.values()} | {FILE_VARIABLE}) == len(KEYS) + 1


def test_example_file_sets_nothing(tmp_path):
    path = tmp_path / "example.toml"
    path.write_text(example_toml(), encoding="utf-8")
    assert set(load(str(path), {}, {}).sources.values()) == {"default"}


def test_example_file_is_valid_with_every_key_uncommented(tmp_path):
    path = tmp_path / "example.toml"
    path.write_text(re.sub(r"^#(?=[a-z\[])", "", example_toml(), flags=re.MULTILINE), "utf-8")
    loaded = load(str(path), {}, {})
    assert all(source.startswith("file ") for source in loaded.sources.values())
    assert [rule.filter for rule in loaded.config.retention.rules] == ["logs/#"]
    assert [rule.filter for rule in loaded.config.signing.rules] == ["plant/+/commands"]
    defaults = {name: key.default for name, key in KEYS.items() if key.kind != "rules"}
    assert {name: loaded.value(name) for name in defaults} == defaults


def test_reference_page_lists_every_key():
    page = markdown()
    for key in ALL_KEYS:
        assert f"| `{key.leaf}` |" in page


def test_configuration_made_by_hand_is_strict_and_immutable():
    with pytest.raises(TypeError):
        Config(dat="x")
    with pytest.raises(AttributeError):
        Config().data = "x"
