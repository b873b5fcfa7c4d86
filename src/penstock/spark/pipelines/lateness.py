"""How many rows a batch dropped because they came too late.

Spark counts what its aggregation drops (``numRowsDroppedByWatermark``), and that sees rows only
after they were combined: all late readings of one topic and window are one. So jobs with windows
observe how many readings each window got (``ends``). With the watermark that the batch was judged
by, the count follows.

That watermark is the one *of the batch before*: Spark filters late rows by it, and closes windows
by its successor. Reports have it for the batches of this run; for the first, the checkpoint has it.
This module needs no Spark.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

ENDS: Final = "ends"
"""The figure under ``observed`` that has the windows."""

WINDOWS_MAX: Final = 2_000
"""Windows of a batch up to which the count is exact. Of more, those close together are one, and
only those around the watermark can be counted wrongly."""


def late_rows(windows: Iterable[Mapping[str, Any]], watermark_ms: int) -> int:
    """Count the rows of windows that were over: ``x`` is the end of one (ms), ``y`` the rows."""
    return sum(int(each["y"]) for each in windows if each["x"] <= watermark_ms)


def milliseconds(watermark: str) -> int:
    """Read a watermark of a report."""
    return round(datetime.fromisoformat(watermark).timestamp() * 1000)


class _Metadata(msgspec.Struct):
    watermark_ms: int = msgspec.field(name="batchWatermarkMs")


def checkpoint_watermark(checkpoint: str, batch: int) -> int | None:
    """Return the watermark of a batch by the checkpoint; None if it is not on this machine."""
    path = Path(checkpoint.removeprefix("file://"), "offsets", str(batch))
    try:
        lines = path.read_bytes().splitlines()
        return msgspec.json.decode(lines[1], type=_Metadata).watermark_ms
    except (OSError, IndexError, msgspec.MsgspecError):
        return None
