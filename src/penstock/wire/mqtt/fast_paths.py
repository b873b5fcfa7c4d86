"""Fast paths: tight loops for the few kinds of packets that are nearly all traffic.

A fast path continues while it meets complete, well-formed packets with the same first byte. At
anything else it stops and returns its position; the plain path judges that packet. Whatever a fast
path accepts, the plain path would accept with the same meaning, which property tests check. Reading
``data[i]`` past a packet's end but inside the chunk is harmless, because the value is used only
after the bounds were checked.

Each loop serves both versions of MQTT, made for one of them: MQTT 5 has properties before the
payload, most often none, which is one byte. A block of them must be proven
(``wire.mqtt.message_properties``). Packets with a topic alias are left to the plain path.
"""

from collections.abc import Callable
from typing import Final

from penstock.wire.mqtt.events import Event, MqttAcks, MqttPublishRun, Publish
from penstock.wire.mqtt.message_properties import MessageProperties
from penstock.wire.mqtt.packet import PUBLISH_SHAPES, PacketType

# ``(data, position, bytes_max, events)`` → the position of the first packet not read
FastPath = Callable[[bytes, int, int, list[Event]], int]

# a block of properties → what it says; None: the plain path must look at it
Proven = Callable[[bytes], MessageProperties | None]

# first byte of a PUBLISH without DUP, QoS and RETAIN
PUBLISH_QOS_0: Final = PacketType.PUBLISH << 4

# first bytes of PUBACK, PUBREC, PUBREL and PUBCOMP
ACKNOWLEDGEMENTS: Final = (0x40, 0x50, 0x62, 0x70)

# lengths of acknowledgements that say the reason code 0
_LONG_ACKS: Final = (3, 4)

# bytes needed so that a header with two length bytes can be read unchecked
PUBLISH_BYTES_MIN: Final = 5


def publish_runs_of(version: int, proven: Proven) -> FastPath:
    """QoS 0 without RETAIN, at a broker: consecutive packets to one topic are one event."""
    has_properties = version >= 5

    def publish_runs(data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        size = len(data)
        last = size - PUBLISH_BYTES_MIN
        topic, payloads, start, previous = None, [b""], position, position
        properties = common = each = None
        append, make = events.append, MqttPublishRun
        while position <= last and data[position] == PUBLISH_QOS_0:
            length = data[position + 1]
            body = position + 2
            if length > 127:
                if not 0 < data[body] < 128:
                    break
                length += (data[body] << 7) - 128
                body += 1
            end = body + length
            payload = body + 2 + (data[body] << 8 | data[body + 1])
            if end > size or payload > end or end - position > bytes_max:
                break
            name = data[body + 2 : payload]
            if has_properties:
                if not name or payload == end:
                    break
                size_of_block = data[payload]
                payload += 1
                if not size_of_block:
                    properties = None
                elif size_of_block < 128:
                    block = payload
                    payload += size_of_block
                    if payload > end:
                        break
                    properties = proven(data[block:payload])
                    if properties is None or properties.alias:
                        break
                else:
                    found = _long_properties(data, payload - 1, end, proven)
                    if found is None:
                        break
                    payload, properties = found
            if name != topic or (properties is not common and not _are_simple(properties, common)):
                if topic is not None:
                    append(make(topic, payloads, data, start, position, version, common, each))
                topic, payloads, start, common = name, [data[payload:end]], position, properties
                each = None
            elif each is not None or properties is not common:
                if each is None:
                    each, common = [common] * len(payloads), None
                payloads.append(data[payload:end])
                each.append(properties)
            else:
                payloads.append(data[payload:end])
                if end - position == position - previous:  # twice the same header: expect more
                    stride, payload_size = end - position, end - payload
                    following = _uniform_end(data, data[position:payload], end, stride)
                    payloads += [  # by their ends: that of the last is ``following``, empty or not
                        data[at - payload_size : at]
                        for at in range(end + stride, following + 1, stride)
                    ]
                    end = following
            previous, position = position, end
        if topic is not None:
            append(make(topic, payloads, data, start, position, version, common, each))
        return position

    return publish_runs


def one_after_other(first: FastPath, then: FastPath) -> FastPath:
    """Read with one fast path as far as it goes, and with the other what it left of the kind."""

    def both(data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        kind = data[position]
        position = first(data, position, bytes_max, events)
        if position < len(data) and data[position] == kind:
            return then(data, position, bytes_max, events)
        return position

    return both


def _are_simple(one: MessageProperties | None, other: MessageProperties | None) -> bool:
    """Whether messages with these properties may be in one run."""
    return (one is None or one.is_simple) and (other is None or other.is_simple)


def _long_properties(
    data: bytes, position: int, end: int, proven: Proven
) -> tuple[int, MessageProperties] | None:
    """The end of properties whose length takes two bytes, and what they say.

    None: the plain path must look at them.
    """
    start = position + 1
    if start == end or not 0 < data[start] < 128:
        return None
    length = data[position] + (data[start] << 7) - 128
    start += 1
    if start + length > end:
        return None
    properties = proven(data[start : start + length])
    return None if properties is None or properties.alias else (start + length, properties)


def _uniform_end(data: bytes, head: bytes, position: int, stride: int) -> int:
    """The end of consecutive packets of ``stride`` bytes that begin with ``head``."""
    startswith = data.startswith
    last = len(data) - stride
    while position <= last and startswith(head, position):
        position += stride
    return position


def publishes_of(version: int, proven: Proven) -> FastPath:
    """Any PUBLISH, one event each."""
    has_properties = version >= 5

    def publishes(data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
        size = len(data)
        last = size - PUBLISH_BYTES_MIN
        first = data[position]
        qos, retain, dup = PUBLISH_SHAPES[first]
        append = events.append
        packet_id = 0
        properties = None
        # bytes from topic to payload: packet id, and the length of properties if that is one byte
        between = (2 if qos else 0) + has_properties
        while position <= last and data[position] == first:
            length = data[position + 1]
            body = position + 2
            if length > 127:
                if not 0 < data[body] < 128:
                    break
                length += (data[body] << 7) - 128
                body += 1
            end = body + length
            topic_end = body + 2 + (data[body] << 8 | data[body + 1])
            payload = topic_end + between
            if end > size or payload > end or end - position > bytes_max:
                break
            if qos:
                packet_id = data[topic_end] << 8 | data[topic_end + 1]
                if not packet_id:
                    break
            topic = data[body + 2 : topic_end]
            if has_properties:
                if not topic:
                    break
                size_of_block = data[payload - 1]
                if not size_of_block:
                    properties = None
                elif size_of_block < 128:
                    block = payload
                    payload += size_of_block
                    if payload > end:
                        break
                    properties = proven(data[block:payload])
                    if properties is None or properties.alias:
                        break
                else:
                    found = _long_properties(data, payload - 1, end, proven)
                    if found is None:
                        break
                    payload, properties = found
            append(Publish(topic, data[payload:end], qos, retain, dup, packet_id, properties))
            position = end
        return position

    return publishes


def acks(data: bytes, position: int, _bytes_max: int, events: list[Event]) -> int:
    first = data[position]
    packet_ids: list[int] = []
    append = packet_ids.append
    for at in range(position, len(data) - 3, 4):
        packet_id = data[at + 2] << 8 | data[at + 3]
        if not packet_id or data[at] != first or data[at + 1] != 2:
            break
        append(packet_id)
    if packet_ids:
        events.append(MqttAcks(first >> 4, packet_ids))
    return position + 4 * len(packet_ids)


def acks_5(data: bytes, position: int, bytes_max: int, events: list[Event]) -> int:
    """MQTT 5: the reason code 0 may be left out or not, and so may the length of no properties."""
    size = data[position + 1] if position + 1 < len(data) else 0
    if size == 2:
        return acks(data, position, bytes_max, events)
    if size not in _LONG_ACKS:
        return position
    first, stride = data[position], size + 2
    packet_ids: list[int] = []
    for at in range(position, len(data) - stride + 1, stride):
        packet_id = data[at + 2] << 8 | data[at + 3]
        if not packet_id or data[at] != first or data[at + 1] != size:
            break
        if data[at + 4] or data[at + stride - 1]:
            break
        packet_ids.append(packet_id)
    if packet_ids:
        events.append(MqttAcks(first >> 4, packet_ids))
    return position + stride * len(packet_ids)
