"""What pip installs runs: compiled where there is a C compiler, interpreted where there is none."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.e2e.process import BrokerProcess
from tests.tidy.files import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]  # pip fetches and compiles

OFFLINE = ("No matching distribution", "NewConnectionError", "Temporary failure")
SCRIPT = Path(sys.executable).with_name("penstock")


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """The sources alone, as in a fresh clone: building writes beside them."""
    tree = tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    built = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=built)
    return tree


@pytest.fixture(scope="module")
def sdist(tree, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    tools = tmp_path_factory.mktemp("tools")
    pip("setuptools>=77", "Cython>=3.1", target=tools)
    environment = os.environ | {"PYTHONPATH": str(tools)}
    subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, check=True)
    (archive,) = folder.glob("*.tar.gz")
    return archive


def pip(*arguments: str, target: Path, **environment: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-cache-dir"]
    done = subprocess.run(
        [*command, "--target", str(target), *arguments],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if any(text in done.stderr for text in OFFLINE):
        pytest.skip("pip cannot fetch what a build needs: there is no network")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Install into a folder, start the broker from there, and return its speed and greeting."""

    def install_and_start(what: Path, **environment: str) -> tuple[str, str]:
        installed = tmp_path / "installed"
        pip(str(what), target=installed, **environment)
        monkeypatch.setenv("PYTHONPATH", str(installed))
        monkeypatch.delenv("PENSTOCK_SPEED", raising=False)
        with BrokerProcess(tmp_path / "data") as broker:
            port = str(broker.port)
            subprocess.run([SCRIPT, "pub", "-p", port, "-q", "1", "plant/pump", "4.2"], check=True)
            read = subprocess.check_output([SCRIPT, "read", "-p", port, "plant/pump"], text=True)
            assert read == "plant/pump 4.2\n"
            speed = json.loads(broker.page("/status")[1])["speed"]
            broker.stop()
        return speed, broker.greeting

    return install_and_start


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_an_image_has_the_kernel_compiled_though_its_last_stage_has_no_compiler(tree, tmp_path):
    """What the Dockerfile has pip do in its two stages, done here."""
    shutil.copy(ROOT / "constraints.txt", tree)
    text = (ROOT / "deploy/Dockerfile").read_text().replace("\\\n", "")
    build, install = re.findall(r"pip (?:wheel|install) [^&\n]+", text)
    places = {"src": tree, "wheels": tmp_path, "installed": tmp_path / "to"}
    for command in (build, f"{install} --target /installed"):
        here = re.sub(r"(?<=\s)/(\w+)", lambda found: str(places[found[1]]), command)
        done = subprocess.run(
            [sys.executable, "-m", *here.split()], capture_output=True, text=True, check=False
        )
        if any(text in done.stderr for text in OFFLINE):
            pytest.skip("pip cannot fetch what a build needs: there is no network")
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "to/penstock/kernel").glob("*.so"))


def without_compiler(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder), "CC": "/bin/false"}


def test_an_sdist_has_the_sources_of_the_kernel_and_nothing_built(sdist):
    with tarfile.open(sdist) as archive:
        names = {Path(name).name for name in archive.getnames() if "/kernel/" in name}
    built = {".so", ".c", ".pyc"}
    assert {path.name for path in (ROOT / "src/penstock/kernel").glob("*.*")} - names == {
        path.name for path in (ROOT / "src/penstock/kernel").glob("*.*") if path.suffix in built
    }


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_an_sdist_is_compiled_where_there_is_a_compiler(sdist, run):
    assert run(sdist)[0] == "compiled"


def test_an_sdist_is_installed_without_a_compiler(sdist, run, tmp_path):
    speed, greeting = run(sdist, **without_compiler(tmp_path))
    assert speed == "interpreted"
    assert "interpreted: the compiled kernel was not built here" in greeting


def test_a_clone_is_installed_without_a_compiler(tree, run, tmp_path):
    assert run(tree, **without_compiler(tmp_path))[0] == "interpreted"
