"""The corpus: inputs that reached new code, one in hexadecimal per line, a file for each target."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

FOLDER = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 512
INPUTS_MAX = 64
OURS = "/penstock/"


def read(name: str) -> list[bytes]:
    file = FOLDER / f"{name}.txt"
    return [bytes.fromhex(line) for line in file.read_text().split("\n")] if file.exists() else []


def write(name: str, inputs: list[bytes]) -> None:
    kept = sorted({one for one in inputs if len(one) <= INPUT_BYTES_MAX}, key=_by_size)
    (FOLDER / f"{name}.txt").write_text("\n".join(one.hex() for one in kept[:INPUTS_MAX]))


def minimised(run: Callable[[bytes], None], inputs: list[bytes]) -> list[bytes]:
    """Those inputs, the smallest first, that reach lines which no smaller one reaches."""
    known: set[tuple[str, int]] = set()
    kept = []
    for data in sorted(set(inputs), key=_by_size):
        reached = _lines(run, data)
        if not reached <= known:
            kept.append(data)
            known |= reached
    return kept


def _by_size(data: bytes) -> tuple[int, bytes]:
    return len(data), data


def _lines(run: Callable[[bytes], None], data: bytes) -> set[tuple[str, int]]:
    """The lines of our own code that an input reaches."""
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _argument: object) -> Callable[..., object] | None:
        if OURS not in frame.f_code.co_filename:
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run(data)
    finally:
        sys.settrace(before)
    return reached
