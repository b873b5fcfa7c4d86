"""A small MQTT 3.1.1 client, blocking, in plain Python.

>>> from penstock.client import connect
>>> with connect("127.0.0.1", 1883) as client:  # doctest: +SKIP
...     client.publish("pump/7/pressure", b"4.2", qos=1)  # returns once the broker has it
...     client.subscribe([("pump/#", 1)])
...     for delivery in client.messages():
...         print(delivery.topic, delivery.payload)

==============  ================================================================================
``session``     the conversation: what to send, what happened; no socket, no clock
``keep_alive``  when to ping, and when to give up; time is a parameter
``blocking``    a socket and a clock around the two: :class:`Client`
``errors``      what can go wrong, and what to do about it
==============  ================================================================================

It loads neither the broker nor its libraries, so that a producer on a small machine starts fast.
"""

from penstock.client.blocking import Client, connect
from penstock.client.errors import (
    BrokerProtocolError,
    ClientError,
    ConnectionLostError,
    RefusedError,
    ReplyTimeoutError,
    UnreachableError,
)
from penstock.client.session import Delivery
from penstock.wire.mqtt.events import Will

__all__ = [
    "BrokerProtocolError",
    "Client",
    "ClientError",
    "ConnectionLostError",
    "Delivery",
    "RefusedError",
    "ReplyTimeoutError",
    "UnreachableError",
    "Will",
    "connect",
]
