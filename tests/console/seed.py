"""Things in a broker that every page has something to show of."""

import contextlib
import json
import math
import threading

import paho.mqtt.client as mqtt

from penstock.client import connect

__all__ = ["device", "devices", "letters", "publish", "readings"]

TIMEOUT_S = 30


class _Device:
    """An MQTT client in a thread of its own."""

    def __init__(self, port, client_id, *, clean):
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean
        )
        self._subscribed = threading.Event()
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        connected = threading.Event()
        self.client.on_connect = lambda *_: connected.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert connected.wait(TIMEOUT_S)

    def subscribe(self, topic_filter, qos=1):
        self._subscribed.clear()
        self.client.subscribe(topic_filter, qos)
        assert self._subscribed.wait(TIMEOUT_S)

    def publish(self, topic, payload, *, qos=1, retain=False):
        self.client.publish(topic, payload, qos, retain).wait_for_publish(TIMEOUT_S)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@contextlib.contextmanager
def device(port, client_id, *, clean=True):
    found = _Device(port, client_id, clean=clean)
    try:
        yield found
    finally:
        found.close()


def publish(port, topic, *payloads, retain=False):
    with device(port, "seed") as seed:
        for payload in payloads:
            seed.publish(topic, payload, retain=retain)


@contextlib.contextmanager
def devices(port):
    """Three pumps, one of them away with a queue; readings; retained messages."""
    with contextlib.ExitStack() as stack:
        for number in (1, 2, 3):
            pump = stack.enter_context(device(port, f"pump-{number}", clean=False))
            pump.subscribe(f"plant/cmd/{number}")
            if number == 3:
                pump.close()
        publish(port, "plant/cmd/3", *(json.dumps({"set": at}) for at in range(20)))
        readings(port)
        for topic in ("alarm/north", "alarm/south"):
            publish(port, topic, json.dumps({"state": "off"}), retain=True)
        yield


def readings(port, count=60):
    values = [
        json.dumps({"c": round(70 + 3 * math.sin(at / 9), 2), "rpm": 1480 + at % 7, "state": "run"})
        for at in range(count)
    ]
    publish(port, "plant/p7/temp", *values)
    publish(port, "plant/p7/raw", bytes(range(48)))


def letters(port, count=4, reason="smtp 550"):
    """Jobs of which ``count`` become dead letters, one is in flight and others wait."""
    with connect([f"127.0.0.1:{port}"]) as client:
        client.create_group("mail/out", "send")
        client.configure_group("mail/out", "send", max_deliveries=1)
        for at in range(count + 6):
            client.produce("mail/out", json.dumps({"to": f"user{at}@example.test"}).encode())
        jobs = client.poll("mail/out", "send", max=count, wait_s=TIMEOUT_S)
        client.nack(jobs, reason=reason)
        client.poll("mail/out", "send", max=1, wait_s=TIMEOUT_S)
