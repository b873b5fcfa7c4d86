"""The way that a message took over bridges, so that none goes round in circles.

Bridges write it into a user property of MQTT 5, ``penstock-path``: a list of **hops**, each the id
of a broker whose bridge sent the message out, or that id and the name of the bridge that took it
in. A bridge that finds its own hop there has met a loop and drops the message. Brokers of MQTT
3.1.1 lose the property; between those, filters that echo are refused from the start
(``Mapping.echoes``).
"""

from typing import Final

from msgspec.structs import replace

from penstock.bridge.mapping import Direction
from penstock.client.mqtt.properties import PublishProperties

PROPERTY: Final = "penstock-path"
HOPS_MAX: Final = 16  # more brokers in a row than anybody chains; bounds the property, too


class Hops:
    """What one bridge writes into the path, and looks for."""

    def __init__(self, broker_id: str, name: str) -> None:
        self._own = {Direction.OUT: broker_id, Direction.IN: f"{broker_id}:{name}"}
        self._seen = {Direction.OUT: {broker_id}, Direction.IN: set(self._own.values())}

    def extended(
        self, properties: PublishProperties, direction: Direction
    ) -> PublishProperties | None:
        """The properties with this hop; None: the message is in a loop."""
        pairs = list(properties.user_properties)
        hops = [hop for name, value in pairs if name == PROPERTY for hop in value.split(",")]
        if len(hops) >= HOPS_MAX or self._seen[direction].intersection(hops):
            return None
        others = [pair for pair in pairs if pair[0] != PROPERTY]
        path = ",".join([*hops, self._own[direction]])
        return replace(properties, user_properties=(*others, (PROPERTY, path)))
