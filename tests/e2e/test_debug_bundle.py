"""``penstock debug bundle``: what others need to find a fault, and nothing that is not theirs."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from penstock.client.mqtt.client import connect
from tests.e2e.process import TIMEOUT_S

SECRET = "a-token-that-must-not-show"


@pytest.mark.parametrize("is_anonymous", [False, True])
def test_a_bundle_has_state_and_stacks_but_no_secret_and_no_payload(start, tmp_path, is_anonymous):
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(SECRET)
    broker = start("--set", f"admin.token_file={tmp_path / 'token'}")
    with connect(broker.host, broker.port, "a-client-of-ours", clean_session=False) as client:
        client.subscribe([("a-topic-of-ours/#", 1)])
        client.publish("a-topic-of-ours/1", b"a-payload-of-ours", 1, retain=True)
    command = [Path(sys.executable).with_name("penstock"), "debug", "bundle", "--json"]
    command += ["-p", str(broker.port), "--token-file", tmp_path / "token"]
    command += ["--anonymous"] * is_anonymous
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=TIMEOUT_S
    )
    found = json.loads(done.stdout)
    with tarfile.open(tmp_path / found["file"]) as bundle:
        parts = {m.name.split("/")[1]: bundle.extractfile(m).read() for m in bundle.getmembers()}
    whole = b"".join(parts.values())
    assert SECRET.encode() not in whole
    assert b"a-payload-of-ours" not in whole
    assert (b"of-ours" in whole) is not is_anonymous
    assert json.loads(parts["overview.json"])["numbers"]["retained"] == 1
    stacks = json.loads(parts["debug-stacks.json"])
    assert any("penstock" in frame for task in stacks["tasks"] for frame in task["frames"])
    # One or more: what happens to clients is journaled, too, a moment later.
    assert re.search(rb"^penstock_journal_messages [1-9]", parts["metrics-2.txt"], re.MULTILINE)
    assert (tmp_path / found["file"]).stat().st_mode & 0o777 == 0o600
