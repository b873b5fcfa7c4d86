"""MQTT 3.1.1: decoding, encoding, and the machines of both ends of a connection.

======================  ===========================================================================
``events``              what a machine reports
``server``, ``client``  the two machines: tables of what may be said in which state
``machine``             what they share: pieces to packets, packets to events
``fast_paths``          the tight loops for the shapes that are nearly all traffic
``decode``              the plain path, one function per packet type
``encode``              packets to bytes
``packet``              the fixed header
======================  ===========================================================================

Bytes in, events out. There is no socket and no clock here, and no opinion on topics beyond UTF-8:
who may publish where, and what a filter matches, is not a matter of the wire.
"""

from penstock.wire.mqtt.client import MqttClientMachine
from penstock.wire.mqtt.decode import is_text
from penstock.wire.mqtt.packet import PacketType
from penstock.wire.mqtt.server import MqttServerMachine

__all__ = ["MqttClientMachine", "MqttServerMachine", "PacketType", "is_text"]
