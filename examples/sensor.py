"""A sensor that publishes readings with QoS 1 and registers a will in case it vanishes.

Run a broker (``make serve``), then::

    .venv/bin/pip install paho-mqtt
    .venv/bin/python examples/sensor.py              # port 1883 on this machine
    .venv/bin/python examples/sensor.py --port 1884

Each reading is on the broker's disk before its line is printed: ``wait_for_publish`` returns on
PUBACK, which Penstock sends after the flush.
"""

import argparse

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion


def main(port: int, readings: int) -> None:
    """Publish some readings and disconnect cleanly, so that the will is not published."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="pump1")
    client.will_set("plant/pump1/state", "lost", qos=1, retain=True)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.publish("plant/pump1/state", "running", qos=1, retain=True).wait_for_publish(10)
    for number in range(readings):
        bar = 4.0 + number / 10
        client.publish("plant/pump1/bar", f"{bar:.1f}", qos=1).wait_for_publish(10)
        print(f"kept: {bar:.1f}")
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=1883)
    parser.add_argument("--readings", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.port, arguments.readings)
