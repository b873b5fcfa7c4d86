"""Test your own code against a real broker in the same process: ``penstock.testing``.

::

    .venv/bin/python -m pytest examples/test_your_service.py

The broker has real sockets and a real journal; only its clock is virtual. A crash is a method call,
and an hour passes in no time.
"""

import threading

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from penstock.testing import Broker


def report(port: int, text: str) -> None:
    """Stands for your service: publishes once and waits for the acknowledgement."""
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.publish("report", text, qos=1, retain=True).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def retained(port: int, topic: str) -> bytes:
    """Return the first message that a new subscriber gets."""
    arrived = threading.Event()
    payloads: list[bytes] = []

    def on_message(_client: Client, _userdata: object, message: MQTTMessage) -> None:
        payloads.append(message.payload)
        arrived.set()

    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.subscribe(topic, qos=1)
    client.loop_start()
    assert arrived.wait(10)
    client.disconnect()
    client.loop_stop()
    return payloads[0]


def wait_until_away(broker: Broker, sessions: int) -> None:
    """Poll the broker's metrics; the test's time-out ends a wait that fails."""
    while broker.metrics()['penstock_sessions{state="away"}'] != sessions:
        pass


def test_a_report_survives_a_crash_of_the_broker() -> None:
    """``kill=True`` drops everything that was only in memory, as kill -9 would."""
    with Broker() as broker:
        report(broker.port, "all is well")
        broker.restart(kill=True)
        assert retained(broker.port, "report") == b"all is well"


def test_an_absent_session_is_forgotten_after_its_hour() -> None:
    """Sections of the configuration are keywords; the test controls the time."""
    with Broker(limits={"session_expiry_s": 3600}) as broker:
        client = Client(CallbackAPIVersion.VERSION2, client_id="worker", clean_session=False)
        client.connect("127.0.0.1", broker.port)
        client.loop_start()
        client.publish("here", qos=1).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()
        wait_until_away(broker, sessions=1)
        broker.clock.advance(3601)
        wait_until_away(broker, sessions=0)
