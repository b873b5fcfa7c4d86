"""A standalone Spark cluster on this machine: a master and workers, as processes.

It serves to test what needs more than one executor. The pip package of PySpark lacks the start
scripts, so we use ``spark-class``. Each worker and its executors form a process group; killing the
group simulates a lost machine.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from penstock.errors import PenstockError
from penstock.spark.java import ensure_java
from penstock.spark.spark_home import linked_home

START_S_MAX: Final = 90.0  # time for a master or worker to start on a busy machine
STOP_S_MAX: Final = 10.0
POLL_S: Final = 0.05
LOG_BYTES_SHOWN: Final = 2000
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_LISTENS: Final = re.compile(rb"Starting Spark master at (spark://\S+)")
_JOINED: Final = re.compile(rb"Successfully registered with master (spark://\S+)")


class SparkCluster:
    """A master and its workers, running inside ``with``; ``java_options`` are for their JVMs."""

    def __init__(
        self,
        workers: int = 2,
        *,
        cores: int = 1,
        memory: str = "1g",
        host: str = "127.0.0.1",
        java_options: str = "",
    ) -> None:
        self._count = workers
        self._host = host
        self._share = ("--cores", str(cores), "--memory", memory)
        self._java_options = java_options
        self._stack = ExitStack()
        self._folder = Path()
        self._master: _Daemon | None = None
        self._workers: list[_Daemon] = []
        self.url = ""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            folder = tempfile.TemporaryDirectory(prefix="penstock-spark-")
            self._folder = Path(stack.enter_context(folder))
            self._master = stack.enter_context(self._daemon("master", _MASTER))
            self.url = self._master.wait_for(_LISTENS)
            for number in range(self._count):
                work = str(self._folder / f"work-{number}")
                arguments = (*self._share, "--work-dir", work, self.url)
                worker = self._daemon(f"worker-{number}", _WORKER, *arguments)
                self._workers.append(stack.enter_context(worker))
            for worker in self._workers:
                worker.wait_for(_JOINED)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def kill_worker(self, number: int) -> None:
        self._workers[number].kill()

    def is_alive(self) -> bool:
        daemons = [self._master, *self._workers]
        return all(daemon is not None and daemon.is_alive() for daemon in daemons)

    def _daemon(self, name: str, main: str, *arguments: str) -> "_Daemon":
        port = ("--host", self._host, "--port", "0", "--webui-port", "0")
        log = self._folder / f"{name}.log"
        return _Daemon([main, *port, *arguments], self._environment(), log)

    def _environment(self) -> dict[str, str]:
        environ = dict(os.environ)
        ensure_java(environ)
        environ.setdefault("SPARK_HOME", str(linked_home()))
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        environ.setdefault("SPARK_DAEMON_MEMORY", "300m")
        options = (environ.get("SPARK_DAEMON_JAVA_OPTS", ""), self._java_options)
        return environ | {
            "SPARK_DAEMON_JAVA_OPTS": " ".join(options).strip(),
            "SPARK_LOCAL_IP": self._host,
        }


class _Daemon:
    """A Spark process in its own process group, with a log file."""

    def __init__(self, command: list[str], environ: dict[str, str], log: Path) -> None:
        self._log = log
        program = str(Path(environ["SPARK_HOME"], "bin", "spark-class"))
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - Spark's own script
                [program, *command],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, sign: re.Pattern[bytes]) -> str:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            is_alive = self.is_alive()
            found = sign.search(self._log.read_bytes())
            if found:
                return found[1].decode()
            if not is_alive:
                break
            time.sleep(POLL_S)
        end = self._log.read_bytes()[-LOG_BYTES_SHOWN:].decode(errors="replace")
        raise PenstockError(f"a Spark cluster process did not start; its log ends with:\n{end}")

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_S_MAX)
        self.kill()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
