"""mosquitto_pub, mosquitto_sub and mosquitto_rr, the tools that people try a broker with first."""

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(
    not (shutil.which("mosquitto_pub") and shutil.which("mosquitto_sub")),
    reason="mosquitto_pub and mosquitto_sub are not installed",
)

TIMEOUT_S = 20


def command(broker, name, *arguments):
    return [f"mosquitto_{name}", "-h", broker.host, "-p", str(broker.port), *arguments]


@pytest.fixture(params=["mqttv311", "mqttv5"])
def version(request):
    return request.param


@pytest.fixture
def tool(broker, version):
    """Run one of them against the broker: ``tool("pub", "-t", topic)``."""

    def run(name, *arguments, given=None, check=True):
        called = command(broker, name, "-V", version, *arguments)
        return subprocess.run(
            called, input=given, capture_output=True, check=check, timeout=TIMEOUT_S
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
def test_a_persistent_session_gets_every_line_in_order(tool, version, unique, qos):
    lasts = ("-x", "3600") if version == "mqttv5" else ()
    session = ("-i", unique, "-c", "-q", qos, *lasts)
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


# ── what MQTT 5 adds ──────────────────────────────────────────────────────────────────────────

in_version_5 = pytest.mark.parametrize("version", ["mqttv5"], indirect=True)
PROPERTIES = {
    "content-type": "text/plain",
    "response-topic": "answers/1",
    "correlation-data": "abc",
    "payload-format-indicator": "1",
    "message-expiry-interval": "3600",
}


def given(packet, properties):
    """The properties of a packet, as options of the tools."""
    return [word for name, value in properties.items() for word in ("-D", packet, name, value)]


@in_version_5
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_properties_are_published_and_found(tool, unique, qos):
    own = ("-D", "publish", "user-property", "plant", "north")
    tool("pub", "-t", unique, "-m", "hi", "-q", qos, "-r", *given("publish", PROPERTIES), *own)
    form = "%C %R %D %F %E %P %S"
    identifier = ("-D", "subscribe", "subscription-identifier", "7")
    found = tool("sub", "-t", unique, "-q", qos, "-C", "1", "-F", form, *identifier)
    expected = "text/plain answers/1 abc 1 3600 plant:north 7"
    assert found.stdout.decode().strip() == expected


@in_version_5
def test_a_will_takes_its_properties_along(broker, tool, unique):
    will = ("--will-topic", f"{unique}/will", "--will-payload", "gone", "--will-qos", "1")
    own = given("will", PROPERTIES)
    mortal = command(broker, "sub", "-V", "mqttv5", "-t", f"{unique}/ready", *will, *own, "-v")
    with subprocess.Popen(mortal, stdout=subprocess.PIPE) as process:
        tool("pub", "-t", f"{unique}/ready", "-m", "x", "-r", "-q", "1")
        process.stdout.readline()  # it is connected
        watcher = command(broker, "sub", "-V", "mqttv5", "-t", f"{unique}/#", "-C", "2", "-q", "1")
        with subprocess.Popen(
            [*watcher, "-F", "%p %C %R %D %F %E"], stdout=subprocess.PIPE, text=True
        ) as watching:
            watching.stdout.readline()  # the retained one: it is subscribed
            process.kill()
            assert watching.stdout.readline() == "gone text/plain answers/1 abc 1 3600\n"
            watching.wait(TIMEOUT_S)


@in_version_5
def test_a_refused_publish_is_reported(tool):
    result = tool("pub", "-t", "$SYS/broker/mine", "-m", "x", "-q", "1", check=False)
    assert b"Not authorized" in result.stderr


@in_version_5
def test_an_alias_is_taken(tool, unique):
    lines = [f"line {number}" for number in range(10)]
    alias = ("-D", "publish", "topic-alias", "3")
    session = ("-i", unique, "-c", "-q", "1", "-x", "3600")
    tool("sub", "-t", unique, "-E", *session)
    tool("pub", "-t", unique, "-q", "1", "-l", *alias, given="\n".join(lines).encode())
    assert received(tool, unique, 10, *session) == [f"{unique} 1 0 {line}" for line in lines]


@in_version_5
@pytest.mark.skipif(not shutil.which("mosquitto_rr"), reason="mosquitto_rr is not installed")
def test_mosquitto_rr_gets_its_answer(broker, tool, unique):
    """The answer is published by the tools, too, with the correlation data of the request."""
    asking = command(broker, "rr", "-V", "mqttv5", "-t", f"{unique}/q", "-e", f"{unique}/a")
    worker = command(broker, "sub", "-V", "mqttv5", "-t", f"{unique}/q", "-C", "2", "-F", "%R %p")
    tool("pub", "-t", f"{unique}/q", "-m", "ready", "-r", "-q", "1")
    with subprocess.Popen(worker, stdout=subprocess.PIPE, text=True) as working:
        working.stdout.readline()  # the retained one: it is subscribed
        asked = [*asking, "-m", "6 * 7", "-W", "10"]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
            where, question = working.stdout.readline().split(maxsplit=1)
            tool("pub", "-t", where, "-m", question.strip() + " = 42")
            assert process.stdout.readline() == "6 * 7 = 42\n"


@in_version_5
def test_a_shared_subscription_is_kept_by_the_session(tool, unique):
    session = ("-i", unique, "-c", "-q", "1", "-x", "3600")
    tool("sub", "-t", f"$share/group/{unique}/+", "-E", *session)
    tool("pub", "-t", f"{unique}/t", "-m", "waits", "-q", "1")
    assert received(tool, f"$share/group/{unique}/+", 1, *session) == [f"{unique}/t 1 0 waits"]
