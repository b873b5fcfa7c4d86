"""How a node exits whose disk failed to store what others may rely on."""

import os
from typing import Final

from penstock.errors import PenstockError, StorageFull
from penstock.obs.log import get_logger

EXIT_STORAGE: Final = 74  # EX_IOERR

_log = get_logger("cluster")


def exit_process(error: BaseException) -> None:
    """Exit at once: to go on could acknowledge what is not stored."""
    _log.critical("node_ends", exit_status=EXIT_STORAGE, **exit_report(error))
    os._exit(EXIT_STORAGE)


def exit_report(error: BaseException) -> dict[str, str]:
    what = error.message if isinstance(error, PenstockError) else str(error)
    if isinstance(error, StorageFull):
        advice = "Make room on the disk of the data directory, then start the node again."
    else:
        advice = "Check the disk and the kernel's log, then start the node again, or replace it."
    return {"error": what, "advice": advice}
