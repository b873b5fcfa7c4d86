"""Which libraries are tested, and with which versions of MQTT."""

from tests.interop.clients import Library
from tests.interop.python_clients import AiomqttClient, GmqttClient, PahoClient

__all__ = ["BOTH", "FIVE"]

BOTH = tuple(
    Library(client, version)
    for client in (PahoClient, AiomqttClient, GmqttClient)
    for version in (4, 5)
)
FIVE = tuple(library for library in BOTH if library.version == 5)
