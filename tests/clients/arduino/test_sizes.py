"""What a sketch links for a board, by the cross compilers that are there."""

import importlib.machinery
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.clients.arduino.driver import LIBRARY

# flash of sketches that publish, and that also subscribe; a little above what the page tells
LARGEST = {
    "RISC-V rv32imc (as ESP32-C3)": (7_200, 10_900),
    "Xtensa lx106 (as ESP8266)": (7_900, 11_600),
    "Arm Cortex-M0+ (as RP2040)": (6_300, 9_400),
}
CLIENT_MAX = 2_900


@pytest.fixture(scope="module")
def sizes() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("sizes", str(LIBRARY / "test/sizes"))
    spec = importlib.util.spec_from_loader("sizes", loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("board", LARGEST)
def test_a_sketch_links_only_what_it_uses(sizes: ModuleType, board: str, tmp_path: Path) -> None:
    prefix, machine = sizes.TARGETS[board]
    if shutil.which(f"{prefix}g++") is None:
        pytest.skip(f"{prefix}g++ is not installed")
    for sketch, largest in zip(("publishes", "and subscribes"), LARGEST[board], strict=True):
        image = sizes.build(prefix, machine, sketch, tmp_path)
        flash, ram = sizes.sections(prefix, image)
        symbols = sizes.run(f"{prefix}nm", "-C", image, cwd=tmp_path)
        assert flash <= largest
        assert ram == 0
        assert "fe_mul" not in symbols
        assert ("Core::subscribe(" in symbols) is (sketch == "and subscribes")
    assert sizes.sizes_of_types(prefix, tmp_path)["sizeofDefault"] <= CLIENT_MAX
