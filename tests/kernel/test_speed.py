import os
import subprocess
import sys
from pathlib import Path

from penstock import kernel

PACKAGE = Path(kernel.__file__).parent


def test_every_part_of_the_kernel_is_loaded_or_none():
    assert {path.stem for path in PACKAGE.glob("*.pyx")} == set(kernel.PARTS)


def test_the_environment_chooses_the_python_form():
    code = "from penstock import kernel; print(kernel.speed, '|', kernel.problem)"
    environment = os.environ | {kernel.SPEED_VARIABLE: kernel.INTERPRETED}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "interpreted | PENSTOCK_SPEED=interpreted is set\n"
