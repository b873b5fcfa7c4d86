"""What ``penstock cluster try`` says and leaves behind; the nodes themselves are in tests/e2e."""

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cli import cluster_try as module
from penstock.cluster.status import ClusterStatus
from penstock.store.directory import lock_directory

NODES = [module._LocalNode(number, 1882 + number, 7700 + number) for number in module.NODES]


def test_the_directory_is_kept_while_a_node_that_was_started_again_uses_it(capsys):
    with module._temporary_directory() as directory:
        for number in module.NODES:
            (directory / f"node{number}").mkdir()
        lock = lock_directory(directory / "node1")
    with lock:
        assert (directory / "node1").is_dir()
        said = capsys.readouterr().out
        assert f"{directory}/node1 is in use by another broker" in said
        assert f"{directory} was kept" in said
    module.shutil.rmtree(directory)


def test_the_directory_is_removed_when_nobody_uses_it(capsys):
    with module._temporary_directory() as directory:
        (directory / "node1").mkdir()
        lock_directory(directory / "node1").close()
    assert (directory.exists(), capsys.readouterr().out) == (False, "")


def test_the_next_ports_are_used_where_one_is_taken_and_that_is_said(tmp_path, capsys):
    with socket.create_server((module.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        first, *_ = found = [node.port for node in module._nodes(tmp_path, port)]
    assert port not in found
    ports = ", ".join(map(str, found))
    assert capsys.readouterr().out == f"Port {port} is in use; the nodes use {ports}.\n"
    assert first > port or port > module.PORT_MAX - module.PORTS_TRIED


@pytest.mark.parametrize("leader", module.NODES)
def test_what_is_suggested_does_not_need_the_node_that_is_to_be_killed(monkeypatch, leader):
    running = module._Running(NODES, Path("d"))
    running._processes = {node.number: SimpleNamespace(pid=node.number) for node in NODES}
    monkeypatch.setattr(running, "_status", lambda _node: ClusterStatus(node_id=1, leader=leader))
    *_, advice = running.welcome(is_kept=False).partition("Try in another terminal:")
    assert f"kill -9 {leader} " in advice
    assert f"-p {NODES[leader - 1].port}" not in advice
    assert advice.count("-p 188") == 3


@pytest.mark.parametrize(
    ("started", "found", "shown"),
    [
        ("bin/penstock", None, "bin/penstock"),
        ("bin/penstock", "bin/penstock", "penstock"),
        ("bin/penstock", "other/penstock", "bin/penstock"),
        ("src/penstock/__main__.py", None, f"{sys.executable} -m penstock"),
        ("-c", None, "penstock"),
    ],
)
def test_commands_are_shown_as_the_user_can_type_them(tmp_path, monkeypatch, started, found, shown):
    monkeypatch.chdir(tmp_path)
    for name in ("bin", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "penstock").touch()
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setattr(module.shutil, "which", lambda _name: found)
    assert module._program() == shown
