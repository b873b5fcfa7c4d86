"""A broker as a child process, for as long as a demo takes; its keys, and its readers' lag.

``penstock serve`` with its own data directory, on a port of the system's choice. Settings of the
user's environment do not reach it: a demo is the same on every machine, and an administrator's
token of another broker is none of its business.
"""

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from penstock.errors import PenstockError

HOST: Final = "127.0.0.1"
STOP_S: Final = 30.0
ANSWER_S: Final = 30.0
_LAST_LINE: Final = "  look "
"""How the last line of the greeting begins: by then it listens."""


class BrokerProcess:
    """``with BrokerProcess(directory) as broker``: stopped in order at the end."""

    def __init__(self, directory: Path) -> None:
        self._log_path = directory / "broker.log"
        self._data = directory / "data"
        self.port = 0

    @property
    def servers(self) -> str:
        """Its address, as Spark's option wants it."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        ports = ("--listen", f"{HOST}:0", "--http-listen", f"{HOST}:0")
        with self._log_path.open("wb") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "penstock", "serve", "--data", str(self._data), *ports],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self.port = self._read_port()
        return self

    def _read_port(self) -> int:
        """Read the greeting, in which the first address is where everybody may come in."""
        assert self._child.stdout is not None
        port = 0
        for line in self._child.stdout:
            if "listening" in line:
                port = int(line.partition("listening")[2].split(",")[0].rpartition(":")[2])
            if line.startswith(_LAST_LINE):
                return port
        self._end()
        raise PenstockError("the demo's broker did not start", f"see {self._log_path}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    # ── Its pages ─────────────────────────────────────────────────────────────────────────────

    def register_key(self, device: str, topic: str, public_key: bytes) -> int:
        """Have a device's public key in force for its topic; returns the key's id."""
        fields = {"device": device, "topics": topic, "public_key": public_key.hex()}
        made = self._ask("POST", "/keys", msgspec.json.encode(fields))
        return int(made["id"])

    def lag(self) -> dict[str, int]:
        """Return how many messages each reader has not read yet, over all topics."""
        lags: dict[str, int] = {}
        for group in self._ask("GET", "/groups?limit=1000")["groups"]:
            lags[group["group"]] = lags.get(group["group"], 0) + int(group["lag"])
        return lags

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise PenstockError(
                f"the demo's broker does not answer: {error}", f"see {self._log_path}"
            ) from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise PenstockError(f"the demo's broker refused {path}: {content.decode()}")
        return msgspec.json.decode(content)
