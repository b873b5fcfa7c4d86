"""mosquitto_pub and mosquitto_sub, the tools that people try a broker with first."""

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    not (shutil.which("mosquitto_pub") and shutil.which("mosquitto_sub")),
    reason="mosquitto_pub and mosquitto_sub are not installed",
)

TIMEOUT_S = 20


@pytest.fixture
def tool(broker):
    """Run one of the two against the broker: ``tool("pub", "-t", topic)``."""

    def run(name, *arguments, given=None, check=True):
        command = [f"mosquitto_{name}", "-h", broker.host, "-p", str(broker.port), *arguments]
        return subprocess.run(
            command, input=given, capture_output=True, check=check, timeout=TIMEOUT_S
        )

    return run


def received(tool, topic_filter, count, *arguments):
    """What mosquitto_sub prints of the first ``count`` messages: topic, QoS, retain, payload."""
    form = "%t %q %r %p"
    result = tool("sub", "-t", topic_filter, "-C", str(count), "-F", form, *arguments)
    return result.stdout.decode().splitlines()


@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_a_retained_message_is_published_and_found(tool, unique, qos):
    tool("pub", "-t", unique, "-m", "hello", "-q", qos, "-r")
    assert received(tool, unique, 1, "-q", qos) == [f"{unique} {qos} 1 hello"]


@pytest.mark.parametrize("qos", ["1", "2"])
def test_a_persistent_session_gets_every_line_in_order(tool, unique, qos):
    session = ("-i", unique, "-c", "-q", qos)
    tool("sub", "-t", f"{unique}/#", "-E", *session)  # subscribes, and leaves
    lines = [f"line {number}" for number in range(100)]
    tool("pub", "-t", f"{unique}/log", "-q", qos, "-l", given="\n".join(lines).encode())
    expected = [f"{unique}/log {qos} 0 {line}" for line in lines]
    assert received(tool, f"{unique}/#", len(lines), *session) == expected


def test_a_file_of_200_kib_is_published_whole(tool, unique, tmp_path):
    content = bytes(range(256)) * 800
    (tmp_path / "file").write_bytes(content)
    tool("pub", "-t", unique, "-q", "1", "-r", "-f", str(tmp_path / "file"))
    assert tool("sub", "-t", unique, "-C", "1", "-N").stdout == content


def test_mqtt_5_is_refused_with_a_message(tool, unique):
    result = tool("pub", "-V", "mqttv5", "-t", unique, "-m", "x", "-q", "1", check=False)
    assert result.returncode != 0
    assert b"unsupported protocol version" in result.stderr.lower()
