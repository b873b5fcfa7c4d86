"""MQTT.js, unmodified, logs in by SCRAM; ``make test`` fetches it."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.access.new_secrets import new_hashes, with_hashes
from penstock.limits import MIB
from penstock.testing import Broker
from penstock.trust.book import put
from penstock.trust.passwords import Cost
from penstock.trust.rows import User
from tests.access import LOGIN_REQUIRED

HERE = Path(__file__).parent / "mqtt_js"
NODE = shutil.which("node")
TIMEOUT_S = 30
PASSWORD = "correct horse battery"


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [NODE or "node", *arguments]
    return subprocess.run(
        command, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@pytest.fixture(scope="module")
def own():
    if NODE is None:
        pytest.skip("node is not installed")
    if node("-e", "require('mqtt')").returncode:
        pytest.skip("MQTT.js is not installed: npm install in tests/interop/mqtt_js")
    with Broker(auth=LOGIN_REQUIRED) as broker:
        hashes = new_hashes("ann", PASSWORD, Cost(8 * MIB, 1, 4_096), b"")
        broker.change_access(put(with_hashes(User("ann", ("client",)), hashes)))
        yield broker


def log_in(broker: Broker, password: str, topic: str) -> dict[str, object]:
    result = node("scram.js", str(broker.port), "ann", password, topic)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_mqttjs_logs_in_proves_itself_again_and_sees_that_the_broker_is_the_right_one(own, unique):
    seen = log_in(own, PASSWORD, unique)
    assert seen == {"proofs": [True, True], "messages": ["before", "after"]}


def test_mqttjs_with_a_wrong_password_is_told_so(own, unique):
    assert log_in(own, "wrong horse battery", unique)["code"] == 0x86
