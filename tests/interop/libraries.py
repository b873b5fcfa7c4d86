"""Which libraries are tested, and with which versions of MQTT."""

from typing import Any

import pytest

from tests.interop.clients import Library
from tests.interop.driven_clients import (
    DrivenClient,
    EclipseGoClient,
    EclipseJavaClient,
    HiveMqClient,
    JavaClient,
    MqttJsClient,
)
from tests.interop.python_clients import AiomqttClient, GmqttClient, PahoClient
from tests.interop.zmqtt_client import ZmqttClient

__all__ = ["BOTH", "FIVE", "LIBRARIES", "parameters", "present", "skip_if_missing"]

BOTH = tuple(
    Library(client, version)
    for client in (PahoClient, AiomqttClient, GmqttClient, ZmqttClient, MqttJsClient)
    for version in (4, 5)
)
"""Libraries that speak 3.1.1 and 5."""
LIBRARIES = (
    *BOTH,
    Library(EclipseGoClient, 5),
    Library(HiveMqClient, 5),
    Library(EclipseJavaClient, 5),
)
FIVE = tuple(library for library in LIBRARIES if library.version == 5)


def parameters(libraries: tuple[Library, ...]) -> list[Any]:
    """Each library as a parameter of tests; those that need a virtual machine are slow."""
    return [
        pytest.param(library, id=str(library), marks=pytest.mark.slow if is_slow(library) else ())
        for library in libraries
    ]


def is_slow(library: Library) -> bool:
    return issubclass(library.client, JavaClient)


def missing(library: Library) -> str | None:
    """What has to be installed for a library of another language, if something has."""
    return library.client.missing() if issubclass(library.client, DrivenClient) else None


def skip_if_missing(library: Library) -> None:
    if needed := missing(library):
        pytest.skip(f"not installed: {needed}")


def present(libraries: tuple[Library, ...]) -> list[Library]:
    return [library for library in libraries if not missing(library)]
