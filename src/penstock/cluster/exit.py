"""How a node ends whose disk did not take what others may rely on."""

import os
from typing import Final

from penstock.errors import PenstockError, StorageFull
from penstock.obs.log import get_logger

EXIT_STORAGE: Final = 74
"""EX_IOERR: the disk did not take what others may rely on."""

_log = get_logger("cluster")


def exit_process(error: BaseException) -> None:
    """Stop at once: to go on could be to acknowledge what is not there."""
    _log.critical("node_ends", exit_status=EXIT_STORAGE, **exit_report(error))
    os._exit(EXIT_STORAGE)


def exit_report(error: BaseException) -> dict[str, str]:
    """Say what happened and what to do. The error's own advice is for a broker that goes on."""
    what = error.message if isinstance(error, PenstockError) else str(error)
    if isinstance(error, StorageFull):
        advice = "Make room on the disk of the data directory, then start the node again."
    else:
        advice = "Look at the disk and the kernel's log, then start the node again, or replace it."
    return {"error": what, "advice": advice}
