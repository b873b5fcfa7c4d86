"""Workers of ``tests.tasks.shop`` as processes, and looks at what their tasks noted."""

import importlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).parent.parent.parent
WAIT_S = 60.0  # only a failing test waits this long


class WorkerProcess:
    """``penstock worker tests.tasks.shop:app``, from its start until it says that it is ready."""

    def __init__(self, environment, *arguments):
        command = [str(Path(sys.executable).with_name("penstock")), "worker", "tests.tasks.shop"]
        self.child = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.lines = []
        self._said = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.child.stderr:
            with self._said:
                self.lines.append(line.rstrip("\n"))
                self._said.notify_all()
        with self._said:
            self._ended = True
            self._said.notify_all()

    def wait_for(self, text):
        """Wait until a line of the log has a text; return that line."""
        with self._said:
            found = self._said.wait_for(lambda: self._find(text) or self._ended, WAIT_S)
            assert found, f"no {text!r} in: {self.lines}"
            line = self._find(text)
        assert line, f"it ended without {text!r}: {self.lines}"
        return line

    def _find(self, text):
        return next((line for line in self.lines if text in line), None)

    def stop(self, number=signal.SIGTERM):
        """Send a signal, wait for the end, return the status."""
        self.child.send_signal(number)
        return self.wait()

    def wait(self):
        status = self.child.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return status

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self._reader.join(WAIT_S)
        self.child.stderr.close()


class Shop:
    """A broker's address and a folder, with the app as a caller imports it."""

    def __init__(self, address, folder, monkeypatch, secret=""):
        self.folder = folder
        self.environment = {
            **os.environ, "SHOP_NODES": address, "SHOP_DIR": str(folder), "SHOP_SECRET": secret
        }  # fmt: skip
        for name in ("SHOP_NODES", "SHOP_DIR", "SHOP_SECRET"):
            monkeypatch.setenv(name, self.environment[name])
        sys.modules.pop("tests.tasks.shop", None)
        self.module = importlib.import_module("tests.tasks.shop")
        self.app = self.module.app
        self._workers = []

    def worker(self, *arguments):
        made = WorkerProcess(self.environment, *arguments)
        self._workers.append(made)
        return made

    def ready_worker(self, *arguments):
        made = self.worker(*arguments)
        made.wait_for("is ready")
        return made

    def notes(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def wait_notes(self, name, count):
        """Wait until tasks have noted so many lines; there is no event between processes."""
        eventually(lambda: len(self.notes(name)) >= count)
        return self.notes(name)

    def letters(self, task):
        found = self.app.client.dead_letters(f"tasks/shop/{task}", "workers")
        return [(letter.payload, dict(letter.headers)["dlq-reason"]) for letter in found]

    def attempts(self, task):
        """Of each dead letter: how often it was handed out."""
        found = self.app.client.dead_letters(f"tasks/shop/{task}", "workers")
        return [dict(letter.headers)["dlq-attempts"] for letter in found]

    def group(self, task):
        (group,) = self.app.client.groups(f"tasks/shop/{task}")
        return group

    def close(self):
        for worker in self._workers:
            worker.close()
        self.app.close()


def eventually(condition):
    deadline = monotonic() + WAIT_S
    pause = threading.Event()
    while not condition():
        assert monotonic() < deadline
        pause.wait(0.02)
