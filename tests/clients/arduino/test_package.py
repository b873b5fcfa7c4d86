"""The Arduino library as a package: sketches build, keywords and versions are right."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.clients.arduino.driver import LIBRARY

ROOT = LIBRARY.parents[1]
BUILD = LIBRARY / "test" / "build"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SKETCHES = sorted([*LIBRARY.glob("examples/*/*.ino"), *LIBRARY.glob("test/sketches/*.ino")])
SIGNS = {"SignedSensor", "MetricMQSigned"}


def sources() -> str:
    files = [*LIBRARY.glob("src/*.h"), *LIBRARY.glob("src/penstock/*")]
    return "\n".join(file.read_text() for file in files)


def test_there_is_an_example_of_everything() -> None:
    examples = {file.stem for file in SKETCHES if "examples" in file.parts}
    assert examples == {"Publish", "Subscribe", "SignedSensor", "DeepSleep", "Worker", "Ethernet"}


@pytest.mark.parametrize("sketch", SKETCHES, ids=lambda sketch: sketch.stem)
def test_a_sketch_builds_and_links_only_what_it_uses(built: None, sketch: Path) -> None:
    program = BUILD / f"{sketch.stem}.sketch"
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    assert (" crypto_eddsa_scalarbase" in symbols) == (sketch.stem in SIGNS)


def test_every_keyword_exists() -> None:
    lines = (LIBRARY / "keywords.txt").read_text().splitlines()
    words = [line.split("\t") for line in lines]
    assert {kind for _, kind in words} == {"KEYWORD1", "KEYWORD2", "LITERAL1"}
    source = sources()
    assert [word for word, _ in words if not re.search(rf"\b{word}\b", source)] == []


def test_every_method_is_a_keyword() -> None:
    core = (LIBRARY / "src/penstock/core.h").read_text()
    public = core[core.index("  Core(Client&") : core.index(" private:\n  enum class Phase")]
    methods = set(re.findall(r"^  (?:\w|\*)+ (\w+)\(", public, re.MULTILINE))
    keywords = (LIBRARY / "keywords.txt").read_text()
    assert {method for method in methods if f"{method}\tKEYWORD2" not in keywords} == set()


def test_versions_are_that_of_the_broker() -> None:
    properties = (LIBRARY / "library.properties").read_text()
    assert f"version={VERSION}\n" in properties
    assert json.loads((LIBRARY / "library.json").read_text())["version"] == VERSION


def test_files_are_as_short_as_those_of_the_broker() -> None:
    ours = [f for f in LIBRARY.rglob("*") if f.suffix in {".h", ".cpp", ".ino"}]
    ours = [f for f in ours if "vendor" not in f.parts and "build" not in f.parts]
    assert ours
    for file in ours:
        lines = file.read_text().splitlines()
        assert len(lines) <= 700, file
        assert max(map(len, lines)) <= 100, file
