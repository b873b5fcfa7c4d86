"""Reloading: which options take effect, and when the watch reads a file."""

import asyncio
import os
from collections.abc import Callable

import pytest
from msgspec import structs

from penstock.cli.reloading import Reloader
from penstock.config.keys import KEYS
from penstock.config.load import load
from penstock.config.reloading import LIVE, changes, with_changes
from penstock.config.schema import Config, Limits, Log, Tls
from penstock.server import Server
from penstock.store.memory import MemoryStore


def test_every_option_that_takes_effect_at_once_exists():
    assert set(KEYS) >= LIVE


def test_changes_are_told_apart_and_secrets_hidden():
    before = Config()
    after = Config(
        log=Log(level="debug"),
        limits=Limits(sessions_max=5),
        admin=structs.replace(before.admin, token="a-secret-of-the-admins"),
    )
    found = {change.name: change for change in changes(before, after)}
    assert {name: change.is_live for name, change in found.items()} == {
        "limits.sessions_max": False,
        "admin.token": False,
        "log.level": True,
    }
    assert found["admin.token"].text == "admin.token = (hidden)"
    merged = with_changes(before, after, ["log.level"])
    assert merged == structs.replace(before, log=Log(level="debug"))


def test_a_first_certificate_needs_a_restart_and_a_further_one_does_not():
    none, one, other = (Config(tls=Tls(cert=name, key=name)) for name in ("", "a", "b"))
    assert not any(change.is_live for change in changes(none, one))
    assert all(change.is_live for change in changes(one, other))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nobody tells of a reload
        await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_the_watch_reloads_a_file_that_has_changed_and_settled(tmp_path, capsys):
    file = tmp_path / "penstock.toml"
    file.write_text("")
    flags = {"listen": ["127.0.0.1:0"], "http_listen": [], "data": str(tmp_path / "data")}
    loaded = load(str(file), {}, flags)
    server = Server(loaded.config, store=MemoryStore())
    await server.start()
    watching = asyncio.create_task(
        (reloader := Reloader(loaded, server, lambda config: config)).watch(0.01)
    )
    try:
        file.write_text("limits.address_connections_max = 7\nsys.interval_s = 77")
        os.utime(file, ns=(1, 1))
        async with asyncio.timeout(60):
            await until(lambda: server.config.sys.interval_s == 77)
        assert server.parts.connections.visitors.limits.address_connections_max == 7
        file.write_text("limits.address_connections_max = 0")
        said: list[str] = []
        async with asyncio.timeout(60):
            await until(lambda: said.append(capsys.readouterr().out) or "refused" in said[-1])
        assert "address_connections_max: must be" in said[-1]
        assert server.config.limits.address_connections_max == 7
        assert not watching.done()
        await reloader.reload("test")
    finally:
        watching.cancel()
        await server.stop()
