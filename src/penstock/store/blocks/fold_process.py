"""The process that folds: ``python -P -m penstock.store.blocks.fold_process DIR``. See ``folder``.

It reads jobs from stdin and answers on stdout. It opens LMDB anew for each job, as the broker's map
may have grown. A thread watches stdin: when the broker is gone, so is this process, even within a
job. Otherwise it could rename a file under the feet of the next broker.
"""

import gc
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import IO, Final

import msgspec

from penstock.store.blocks.files import BlockFiles
from penstock.store.blocks.folder import (
    FoldJob,
    FoldReply,
    error_reply,
    read_frame,
    run_job,
    write_frame,
)
from penstock.store.environment import Environment

_NICENESS: Final = 5  # yields to the broker, and still keeps up on a busy machine


def _watch(stdin: IO[bytes], jobs: "queue.SimpleQueue[bytes]") -> None:
    while True:
        frame = read_frame(stdin)
        if frame is None:
            os._exit(0)  # the broker is gone: nobody would register what is being made
        jobs.put(frame)


def _reply(data: Path, frame: bytes) -> FoldReply:
    environment: Environment | None = None
    try:
        job = msgspec.msgpack.decode(frame, type=FoldJob)
        environment = Environment(data, map_bytes=0, readonly=True)
        return FoldReply(run_job(environment, BlockFiles(data), job))
    except Exception as error:  # noqa: BLE001 - the broker decides what is to be done
        return error_reply(error)
    finally:
        if environment is not None:
            environment.close()


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the broker, which ends us
    os.nice(_NICENESS)
    gc.disable()  # millions of numbers, and no cycles
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    threading.Thread(target=_watch, args=(stdin, jobs), daemon=True).start()
    data = Path(sys.argv[1])
    while True:
        reply = _reply(data, jobs.get())
        gc.collect()
        try:
            write_frame(stdout, msgspec.msgpack.encode(reply))
        except BrokenPipeError:
            return


if __name__ == "__main__":
    _main()
