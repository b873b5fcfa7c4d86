"""The demo's broker: ``penstock serve`` as a child process, its keys, and its readers' lag."""

import http.client
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from penstock.errors import PenstockError

T = TypeVar("T")
HOST: Final = "127.0.0.1"
STOP_S: Final = 30.0
ANSWER_S: Final = 30.0
_LAST_LINE: Final = "  look "  # of the startup message: now it listens


class _Registered(msgspec.Struct):
    id: int


class _Group(msgspec.Struct):
    group: str
    lag: int


class _Groups(msgspec.Struct):
    groups: list[_Group]


class BrokerProcess:
    """``with BrokerProcess(directory) as broker``: stopped at the end."""

    def __init__(self, directory: Path) -> None:
        self._log_path = directory / "broker.log"
        self._data = directory / "data"
        self.port = 0

    @property
    def servers(self) -> str:
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
        assert self._child.stdout is not None
        port = 0
        for line in self._child.stdout:
            if "listening" in line:
                port = int(line.partition("listening")[2].split(",")[0].rpartition(":")[2])
            if line.startswith(_LAST_LINE):
                return port
        self._end()
        raise PenstockError("the demo's broker did not start", f"see {self._log_path}")

    def __exit__(self, *_error: object) -> None:
        self._end()

    def _end(self) -> None:
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    def register_key(self, device: str, topic: str, public_key: bytes) -> int:
        fields = {"device": device, "topics": topic, "public_key": public_key.hex()}
        return self._ask("POST", "/keys", _Registered, msgspec.json.encode(fields)).id

    def lag(self) -> dict[str, int]:
        lags: dict[str, int] = {}
        for group in self._ask("GET", "/groups?limit=1000", _Groups).groups:
            lags[group.group] = lags.get(group.group, 0) + group.lag
        return lags

    def _ask(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
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
        return msgspec.json.decode(content, type=kind)
