"""What ``deploy/`` contains starts unchanged, and is not restarted after a disk failure."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.process import LAST_GREETING, TIMEOUT_S

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def instructions() -> dict[str, list[str]]:
    """The Dockerfile by instruction, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest.strip())
    return found


def environment(data: Path) -> dict[str, str]:
    """The image's variables, with a directory and a port that a test may use."""
    pairs = dict(pair.split("=", 1) for text in instructions()["ENV"] for pair in shlex.split(text))
    assert pairs["PENSTOCK_DATA"] == "/data"
    assert pairs["PENSTOCK_LISTEN"] == "0.0.0.0:1883"
    return pairs | {"PENSTOCK_DATA": str(data), "PENSTOCK_LISTEN": "0.0.0.0:0"}


def test_the_image_s_broker_keeps_its_data_in_the_volume_and_listens_beyond_the_container(tmp_path):
    data = tmp_path / "data"
    penstock = Path(sys.executable).with_name("penstock")
    added = [penstock, "users", "add", "ann", "--admin", "--secret", "--data", data]
    subprocess.run(added, check=True, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL)
    entry = [*json.loads(instructions()["ENTRYPOINT"][0]), *json.loads(instructions()["CMD"][0])]
    with subprocess.Popen(
        [str(Path(sys.executable).with_name(entry[0])), *entry[1:]],
        env=environment(data) | {"PATH": os.environ["PATH"]},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            greeting = read_greeting(broker)
            port = int(re.search(r"listening  0\.0\.0\.0:(\d+)", greeting)[1])
            address = f"http://127.0.0.1:{port}/health"
            with urllib.request.urlopen(address, timeout=TIMEOUT_S) as answer:
                assert answer.status == 200
        finally:
            broker.terminate()
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (data / "data.mdb").is_file()


def read_greeting(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    lines = []
    for line in broker.stdout:
        lines.append(line)
        if line.startswith(LAST_GREETING):
            return "".join(lines)
    raise AssertionError(f"the broker did not start: {lines}")


def test_the_image_s_user_owns_its_data_and_begins_there():
    found = instructions()
    assert found["USER"] == ["penstock"]
    assert found["WORKDIR"] == found["VOLUME"] == ["/data"]
    assert "install -d -o penstock -m 0700 /data" in " ".join(found["RUN"])
    assert "--uid 10001" in " ".join(found["RUN"])


def test_the_image_is_built_where_there_is_a_compiler_and_does_not_keep_it():
    first, last = instructions()["FROM"]
    assert first == f"{last.removesuffix('-slim')} AS build"
    assert "from=build" in " ".join(instructions()["RUN"])


def test_no_container_lets_everybody_in_and_nodes_have_no_capabilities():
    for name in ("Dockerfile", "compose.yaml"):
        assert "ALLOW_ANONYMOUS" not in (DEPLOY / name).read_text()
    text = (DEPLOY / "compose.yaml").read_text()
    node = text[text.index("x-node:") : text.index("x-environment:")]
    for line in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
        assert line in node


def test_what_the_image_copies_is_let_through_and_data_is_not():
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    admitted = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {name for text in instructions()["COPY"] for name in text.split()[:-1]}
    assert "**/*.so" in rules, "a kernel of another machine must not come with the sources"
    assert "*" in rules
    assert copied == admitted


@pytest.mark.parametrize("name", ["penstock.service", "penstock@.service"])
def test_systemd_does_not_restart_a_broker_whose_disk_failed(name):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / name)
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["RestartPreventExitStatus"] == "74"


@pytest.mark.parametrize("name", ["penstock.service", "penstock@.service"])
def test_systemd_gives_the_broker_few_rights(name):
    lines = (DEPLOY / name).read_text().splitlines()
    for line in ("SystemCallFilter=@system-service", "NoNewPrivileges=yes", "UMask=0077"):
        assert line in lines
    assert any("LoadCredential=" in line for line in lines)


@pytest.mark.parametrize("name", ["penstock.service", "penstock@.service"])
def test_systemd_waits_for_the_broker_to_listen_and_watches_it(name):
    lines = (DEPLOY / name).read_text().splitlines()
    for line in ("Type=notify", "TimeoutStartSec=infinity", "WatchdogSec=60"):
        assert line in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_units(tmp_path):
    for name in ("penstock.service", "penstock@.service"):
        text = (DEPLOY / name).read_text().replace("/opt/penstock/.venv/bin/penstock", "/bin/true")
        (tmp_path / name.replace("@", "@1")).write_text(text)
    units = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert "Unknown key" not in done.stderr


def test_compose_restarts_no_node_by_itself():
    """It cannot distinguish exit status 74, which needs an operator, from a crash."""
    text = (DEPLOY / "compose.yaml").read_text()
    node = text[text.index("x-node:") : text.index("x-environment:")]
    assert 'restart: "no"' in node
