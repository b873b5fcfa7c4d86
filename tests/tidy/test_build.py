"""The one definition of the build, ``pyproject.toml``, has everything that it must."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

from tests.tidy.files import ROOT

KERNEL = ROOT / "src/penstock/kernel"
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
BUILT = {".c", ".so", ".pyc"}


def kernel_files(*suffixes: str) -> set[str]:
    return {path.name for path in KERNEL.iterdir() if path.suffix in suffixes}


def test_every_part_of_the_kernel_is_built_once():
    named = [Path(source).name for part in SETUPTOOLS["ext-modules"] for source in part["sources"]]
    assert sorted(named) == sorted(kernel_files(".pyx"))


def test_no_part_of_the_kernel_is_needed_to_install():
    assert all(part["optional"] for part in SETUPTOOLS["ext-modules"])


def test_an_sdist_has_every_source_of_the_kernel():
    data = SETUPTOOLS["package-data"]
    patterns = ["*.py", *data["*"], *data["penstock.kernel"]]
    sources = {path.name for path in KERNEL.iterdir() if path.is_file()}
    sources -= kernel_files(*BUILT)
    assert {name for name in sources if not any(fnmatch(name, p) for p in patterns)} == set()


def test_every_part_of_the_kernel_has_types():
    assert {name.removesuffix("x") + "i" for name in kernel_files(".pyx")} == kernel_files(".pyi")
