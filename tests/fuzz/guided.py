"""One target under atheris: ``python -m tests.fuzz.guided TARGET [options of libFuzzer]``.

libFuzzer ends the process, so this is a program of its own. Only our code is instrumented.
"""

import sys

import atheris

with atheris.instrument_imports(include=["penstock"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
