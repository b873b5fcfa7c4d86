"""What the broker tells the service manager that started it: systemd, with ``Type=notify``.

``NOTIFY_SOCKET`` names a Unix socket that takes datagrams of ``NAME=value`` lines: ``READY=1``
once the broker listens, ``STOPPING=1`` when it ends, ``STATUS=`` for people. ``WATCHDOG_USEC`` asks
for a ``WATCHDOG=1`` at least that often; it comes from the event loop, so its absence means that
the loop stands still. Without these variables nothing is sent.

A message that cannot be sent is given up: the broker serves with and without a manager.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Self

__all__ = ["ServiceManager"]

SEND_TIMEOUT_S: Final = 1.0  # a manager that does not read must not stop the broker
LONG_S: Final = 3_600.0
"""How long the event loop may stand still while a store is recovered."""


class ServiceManager:
    """Sends to one address; an empty one sends nothing."""

    def __init__(self, address: str, watchdog_s: float = 0.0) -> None:
        """``watchdog_s`` is how often a sign of life is due; 0: never."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._watchdog_s = watchdog_s

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Self:
        address = environ.get("NOTIFY_SOCKET", "")
        if not address.startswith(("/", "@")):  # such as vsock:, of virtual machines
            return cls("")
        return cls(address, _watchdog_s(environ))

    def ready(self, status: str) -> None:
        self._tell("READY=1", f"STATUS={status}")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=Stopping: completing what was accepted")

    def recovering(self) -> None:
        """Allow a long silence: a store is read again. ``recovered`` ends this."""
        self._tell("STATUS=Recovering a store that another node sent", *self._watchdog(LONG_S))

    def recovered(self, status: str) -> None:
        self._tell(f"STATUS={status}", *self._watchdog(self._watchdog_s))

    async def keep_alive(self) -> None:
        """Give signs of life, until cancelled; twice as often as asked for."""
        while self._address and self._watchdog_s:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    def _watchdog(self, allowed_s: float) -> list[str]:
        if not self._watchdog_s:
            return []
        return [f"WATCHDOG_USEC={int(allowed_s * 1e6)}", "WATCHDOG=1"]

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
        with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sender:
            sender.settimeout(SEND_TIMEOUT_S)
            sender.sendto("\n".join(lines).encode(), self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """The interval of this process; another one's (``WATCHDOG_PID``) does not count."""
    interval = environ.get("WATCHDOG_USEC", "")
    process = environ.get("WATCHDOG_PID", "")
    is_ours = not process or process == str(os.getpid())
    return int(interval) / 1e6 if is_ours and interval.isascii() and interval.isdigit() else 0.0
