"""Counts the rows that a batch dropped because they were too late.

Spark's own count (``numRowsDroppedByWatermark``) sees rows only after they were combined. So jobs
observe the readings per window (``ends``), and the number follows from the watermark *of the batch
before*: Spark drops late rows by it, and closes windows by its successor.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

ENDS: Final = "ends"  # the observed metric with the windows

# Exact up to this many windows per batch; of more, neighbours are merged.
WINDOWS_MAX: Final = 2_000


def late_rows(windows: Iterable[Mapping[str, float]], watermark_ms: int) -> int:
    """Count the rows of closed windows: ``x`` is the end of one (ms), ``y`` its rows."""
    return sum(int(each["y"]) for each in windows if each["x"] <= watermark_ms)


def milliseconds(watermark: str) -> int:
    return round(datetime.fromisoformat(watermark).timestamp() * 1000)


class _Metadata(msgspec.Struct):
    watermark_ms: int = msgspec.field(name="batchWatermarkMs")


def checkpoint_watermark(checkpoint: str, batch: int) -> int | None:
    path = Path(checkpoint.removeprefix("file://"), "offsets", str(batch))
    try:
        lines = path.read_bytes().splitlines()
        return msgspec.json.decode(lines[1], type=_Metadata).watermark_ms
    except (OSError, IndexError, msgspec.MsgspecError):
        return None
