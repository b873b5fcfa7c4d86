"""Reload configuration and certificates while the broker runs: by SIGHUP, or when a file changes.

**All or nothing.** The configuration is loaded as at the start, with the same flags; certificates
are read and tried in a handshake. If anything is wrong, everything stays as it was. What was
applied, what needs a restart and what was refused is printed and logged.

**The watch** compares size, time and inode of the files every few seconds; it reads them only once
they have changed and then stayed the same for one round, so that a file is not read half-written.
"""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

import click

from penstock.config.load import Loaded, load
from penstock.config.reloading import changes
from penstock.config.schema import Config
from penstock.errors import PenstockError
from penstock.obs import log
from penstock.server import Server

WATCH_S = 5.0  # a certificate that was renewed has time; a stat of a few files costs nothing

_Marks = tuple[tuple[int, int, int] | None, ...]


class Reloader:
    """Reloads for one process; the server may be replaced by another."""

    def __init__(self, loaded: Loaded, server: Server, fit: Callable[[Config], Config]) -> None:
        """``fit`` lowers limits to what the system allows, as at the start."""
        self._loaded = loaded
        self._fit = fit
        self.server = server
        self._logger = log.get_logger("reload")
        self._is_busy = asyncio.Lock()
        self._seen = self._marks()

    async def reload(self, cause: str) -> None:
        async with self._is_busy:
            self._seen = self._marks()
            try:
                applied, waiting = await self._apply()
            except PenstockError as error:
                self._logger.warning("reload_refused", cause=cause, why=str(error))
                click.echo(f"Reload ({cause}) refused, nothing has changed: {error}")
                return
            except Exception:
                self._logger.exception("reload_failed", cause=cause)
                return
        self._logger.info(
            "reloaded", cause=cause, applied="; ".join(applied), needs_restart="; ".join(waiting)
        )
        click.echo("\n".join(_report(cause, applied, waiting)))

    async def _apply(self) -> tuple[list[str], list[str]]:
        server = self.server
        config = await asyncio.to_thread(self._load)
        found = list(changes(server.config, config))
        certificates = server.certificates
        prepared = None
        if certificates is not None:
            prepared = await asyncio.to_thread(certificates.prepare, config.tls)
        peers = await asyncio.to_thread(server.node.prepare_security)
        live = [change for change in found if change.is_live]
        server.reconfigure(config, [change.name for change in live])
        applied = [change.text for change in live]
        if certificates is not None and prepared is not None:
            applied += certificates.apply(prepared)
        if peers is not None:
            applied += server.node.replace_security(peers)
        log.configure(server.config.log.level, server.config.log.format)
        return applied, [change.text for change in found if not change.is_live]

    def _load(self) -> Config:
        return self._fit(load(self._loaded.file, os.environ, self._loaded.flags).config)

    # ── the watch ─────────────────────────────────────────────────────────────────────────────

    async def watch(self, interval_s: float = WATCH_S) -> None:
        before = self._seen
        while True:
            await asyncio.sleep(interval_s)
            marks = await asyncio.to_thread(self._marks)
            if marks == before != self._seen:
                await self.reload("a file has changed")
            before = marks

    def _marks(self) -> _Marks:
        tls, cluster = self.server.config.tls, self.server.config.cluster
        files = [self._loaded.file, tls.cert, tls.key, tls.client_ca, tls.crl]
        files += [cluster.secret_file, cluster.tls_cert, cluster.tls_key, cluster.tls_ca]
        return tuple(_mark(file) for file in files if file)


def _mark(file: str) -> tuple[int, int, int] | None:
    with suppress(OSError):
        found = os.stat(file)  # noqa: PTH116 - follows links, as renewals by link need it
        return found.st_ino, found.st_mtime_ns, found.st_size
    return None


def _report(cause: str, applied: list[str], waiting: list[str]) -> list[str]:
    if not applied and not waiting:
        return [f"Reload ({cause}): nothing has changed."]
    lines = [f"Reload ({cause}):"]
    lines += [f"  applied        {text}" for text in applied]
    lines += [f"  needs restart  {text}" for text in waiting]
    return lines
