"""What the console has of others is what its manifest says, and nothing else."""

import hashlib
import tomllib

import pytest

from tests.console.conftest import STATIC

VENDOR = STATIC / "vendor"
FILES = tomllib.loads((VENDOR / "MANIFEST.toml").read_text())["file"]


def _sha256(body):
    return hashlib.sha256(body).hexdigest()


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["file"])
def test_a_vendored_file_is_the_one_of_the_manifest(entry):
    assert _sha256((VENDOR / entry["file"]).read_bytes()) == entry["sha256"]


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["file"])
def test_without_our_change_it_is_the_one_of_its_package(entry):
    body = (VENDOR / entry["file"]).read_text()
    body = body.removesuffix(entry.get("appended", ""))
    if "replaced" in entry:
        before, after = entry["replaced"]
        body = body.replace(after, before)
    assert _sha256(body.encode()) == entry["original_sha256"]


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["file"])
def test_it_comes_with_its_licence_and_its_origin(entry):
    assert (
        "opyright" in (VENDOR / entry["licence_file"]).read_text()
        or entry["licence"] == "Apache-2.0"
    )
    assert entry["integrity"].startswith("sha512-")
    assert entry["licence"] in {"MIT", "Apache-2.0"}


def test_nothing_is_vendored_that_the_manifest_does_not_name():
    named = {entry["file"] for entry in FILES} | {entry["licence_file"] for entry in FILES}
    assert {path.name for path in VENDOR.iterdir()} == named | {"MANIFEST.toml"}
