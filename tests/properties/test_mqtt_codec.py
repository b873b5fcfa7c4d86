"""Laws of the MQTT codec that hold for all packets, all cuts and all bytes.

The oracle for the machine with its fast paths is ``naive``: a decoder of client packets written as
plainly as possible, one packet at a time, sharing no code with the product.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine, encode, is_text
from penstock.wire.mqtt.client import CLIENT_5
from penstock.wire.mqtt.events import MqttAcks, MqttPublishRun, Will
from penstock.wire.mqtt.machine import State
from penstock.wire.mqtt.message_properties import (
    MessageProperties,
    PacketError,
    of_properties,
    proven,
)
from penstock.wire.mqtt.properties import NONE, Carrier, Properties, block_of, properties_in
from penstock.wire.mqtt.server import SERVER_5
from tests.wire.vectors import CONNACK, CONNECT, client_in, feed, plain, server_in

LAST_WORDS = {"violation", "refused", "disconnect"}


def latin(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


# ── Packets a client may send, each with the plain event it must become ───────────────────────

packet_ids = st.integers(1, 65_535)
qos_levels = st.integers(0, 2)
payloads = st.binary(max_size=20) | st.sampled_from((bytes(200), bytes(17_000)))
topics = st.sampled_from((b"a", b"b", b"a/b", b"", b"plant/line/4"))
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12).map(
    str.encode
)


@st.composite
def messages(draw):
    qos = draw(qos_levels)
    retain, dup = draw(st.booleans()), qos > 0 and draw(st.booleans())
    packet_id = draw(packet_ids) if qos else 0
    topic, payload = draw(topics), draw(payloads)
    packet = encode.publish(topic, payload, qos, retain=retain, dup=dup, packet_id=packet_id)
    return packet, ["publish", latin(topic), latin(payload), qos, retain, dup, packet_id]


@st.composite
def telemetry(draw):
    """QoS 0 to few topics in few sizes: what runs are made of."""
    topic, payload = draw(st.sampled_from((b"a", b"b"))), draw(st.sampled_from((b"xy", b"z")))
    expected = ["publish", latin(topic), latin(payload), 0, False, False, 0]
    return encode.publish(topic, payload), expected


@st.composite
def acknowledgements(draw):
    kind, packet_id = draw(st.integers(4, 7)), draw(packet_ids)
    return encode.acks(kind, [packet_id]), ["ack", kind, packet_id]


@st.composite
def subscriptions(draw):
    packet_id = draw(packet_ids)
    requests = draw(st.lists(st.tuples(texts, qos_levels), min_size=1, max_size=4))
    packet = encode.subscribe(packet_id, requests)
    return packet, ["subscribe", packet_id, [[latin(name), qos] for name, qos in requests]]


@st.composite
def unsubscriptions(draw):
    packet_id = draw(packet_ids)
    filters = draw(st.lists(texts, min_size=1, max_size=4))
    return encode.unsubscribe(packet_id, filters), [
        "unsubscribe",
        packet_id,
        [latin(name) for name in filters],
    ]


pings = st.just((encode.PINGREQ, ["pingreq"]))
client_packets = (
    messages() | telemetry() | acknowledgements() | subscriptions() | unsubscriptions() | pings
)


@st.composite
def connects(draw):
    username = draw(st.none() | texts)
    will = draw(
        st.none() | st.builds(Will, texts, st.binary(max_size=9), qos_levels, st.booleans())
    )
    fields = {
        "client_id": draw(texts.filter(bool)),
        "clean_session": draw(st.booleans()),
        "keep_alive": draw(st.integers(0, 65_535)),
        "will": will,
        "username": username,
        "password": None if username is None else draw(st.none() | st.binary(max_size=9)),
    }
    expected = fields | {
        "client_id": latin(fields["client_id"]),
        "will": will and [latin(will.topic), latin(will.payload), will.qos, will.retain],
        "username": latin(username),
        "password": latin(fields["password"]),
    }
    return encode.connect(**fields), ["connect", expected]


@st.composite
def cut(draw, data: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


# ── Laws ──────────────────────────────────────────────────────────────────────────────────────


@given(st.data(), st.lists(client_packets, max_size=12))
def test_what_is_encoded_is_decoded_however_it_is_cut(data, packets):
    stream = b"".join(packet for packet, _ in packets)
    machine = server_in("connected")
    seen = feed(machine, data.draw(cut(stream)))
    assert seen == [expected for _, expected in packets]
    assert machine.pending_bytes == 0


@given(st.lists(telemetry(), max_size=40))
def test_frames_of_runs_are_the_stream_itself(packets):
    stream = b"".join(packet for packet, _ in packets)
    runs = server_in("connected").receive(stream)
    assert b"".join(run.frames for run in runs) == stream
    assert all(a.topic != b.topic for a, b in pairwise(runs))


@given(st.data(), connects())
def test_a_connect_that_is_encoded_is_decoded(data, packet):
    encoded, expected = packet
    assert feed(MqttServerMachine(), data.draw(cut(encoded))) == [expected]


@given(st.booleans(), packet_ids, st.lists(st.sampled_from((0, 1, 2, 0x80)), min_size=1))
def test_answers_that_are_encoded_are_decoded(session_present, packet_id, codes):
    stream = (
        encode.connack(session_present, 0)
        + encode.suback(packet_id, codes)
        + encode.unsuback(packet_id)
        + encode.PINGRESP
    )
    assert plain(MqttClientMachine().receive(stream)) == [
        ["connack", session_present, 0],
        ["suback", packet_id, codes],
        ["unsuback", packet_id],
        ["pingresp"],
    ]


def assert_lawful(machine, seen):
    """A final event is the last one; the machine is then closed and empty."""
    ends = [item[0] in LAST_WORDS or (item[0] == "connack" and item[2] != 0) for item in seen]
    assert not any(ends[:-1])
    assert machine.closed == any(ends)
    assert not (machine.closed and machine.pending_bytes)
    assert machine.receive(b"") == []


@given(st.data(), st.sampled_from((b"", CONNECT, CONNACK)), st.binary(max_size=80))
def test_arbitrary_bytes_never_raise_and_nothing_follows_a_violation(data, before, noise):
    pieces = data.draw(cut(before + noise))
    for machine in (MqttServerMachine(), MqttClientMachine()):
        assert_lawful(machine, feed(machine, pieces))


@given(st.data(), st.lists(client_packets, min_size=1, max_size=6))
def test_a_damaged_stream_never_raises_and_cuts_do_not_matter(data, packets):
    stream = bytearray(b"".join(packet for packet, _ in packets))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(len(stream) - 1, 300)))
        stream[place] = data.draw(st.integers(0, 255))
    cut_machine, whole_machine = server_in("connected"), server_in("connected")
    seen = feed(cut_machine, data.draw(cut(bytes(stream))))
    assert_lawful(cut_machine, seen)
    assert seen == plain(whole_machine.receive(bytes(stream)))
    assert cut_machine.pending_bytes == whole_machine.pending_bytes


@given(
    st.sampled_from((server_in, client_in)),
    st.sampled_from(("opening", "connected")),
    st.integers(0, 255),
    st.binary(max_size=40),
)
def test_every_state_and_packet_gives_a_lawful_outcome(make, state, first, body):
    """One whole packet, any type, flags and body: accepted as the state table says, or closed."""
    machine = make(state)
    row = machine.transitions[machine.state]
    seen = plain(machine.receive(bytes((first, len(body))) + body))
    assert len(seen) == 1
    if first >> 4 not in row:
        assert seen == [["violation", "protocol_violation"]]
    elif seen[0][0] in {"violation", "refused"} or seen[0][0] == "connack":
        assert machine.closed or machine.state is State.CONNECTED
    else:
        assert machine.state is row[first >> 4]
    assert_lawful(machine, seen)


# ── The naive decoder ─────────────────────────────────────────────────────────────────────────


PUBLISHES = (0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x3A, 0x3B, 0x3C, 0x3D)
FIRST_BYTES = (*PUBLISHES, 0x40, 0x50, 0x62, 0x70)


def naive(stream: bytes) -> list:
    """Events of PUBLISH packets and acknowledgements; None stands for a violation, and ends it."""
    seen = []
    while stream:
        if stream[0] not in FIRST_BYTES:
            return [*seen, None]
        length, digits = 0, 0
        for digits in range(1, 5):
            if len(stream) <= digits:
                return seen
            length += (stream[digits] % 128) * 128 ** (digits - 1)
            if stream[digits] < 128:
                break
        else:
            return [*seen, None]
        if length > 256 * 1024:
            return [*seen, None]
        if len(stream) < 1 + digits + length:
            return seen
        first, body = stream[0], stream[1 + digits : 1 + digits + length]
        event = naive_publish(first, body) if first // 16 == 3 else naive_ack(first, body)
        seen.append(event)
        if event is None:
            return seen
        stream = stream[1 + digits + length :]
    return seen


def naive_publish(first: int, body: bytes):
    retain, qos, dup = first % 2 == 1, first // 2 % 4, first // 8 % 2 == 1
    topic_size = int.from_bytes(body[:2], "big")
    header = 2 + topic_size + (2 if qos else 0)
    if len(body) < 2 or len(body) < header:
        return None
    packet_id = int.from_bytes(body[header - 2 : header], "big") if qos else 0
    if qos and not packet_id:
        return None
    topic, payload = body[2 : 2 + topic_size], body[header:]
    return ["publish", latin(topic), latin(payload), qos, retain, dup, packet_id]


def naive_ack(first: int, body: bytes):
    packet_id = int.from_bytes(body, "big")
    return ["ack", first // 16, packet_id] if len(body) == 2 and packet_id else None


near_bodies = st.sampled_from(
    (
        b"\0\1t",
        b"\0\1tx",
        b"\0\1tyy",
        b"\0\1u\0\1",
        b"\0\1t\0\0",
        b"\0\0",
        b"\0\5t",
        b"\0\7",
        b"\1",
        b"",
    )
)
near_lengths = st.sampled_from((0, 0, 0, 0, 0, 0, 1, -1))


@st.composite
def near_packets(draw):
    """A packet that may be well-formed, off by one in its length, or with an overlong length."""
    body = draw(near_bodies)
    length = max(0, len(body) + draw(near_lengths))
    header = draw(st.sampled_from((bytes((length,)), bytes((length,)), bytes((length + 128, 0)))))
    return bytes((draw(st.just(0x30) | st.sampled_from(FIRST_BYTES)),)) + header + body


@given(st.data(), st.lists(near_packets(), max_size=10))
def test_lanes_and_plain_path_together_agree_with_the_naive_decoder(data, packets):
    stream = b"".join(packets)
    seen = feed(server_in("connected"), data.draw(cut(stream)))
    assert [None if item[0] == "violation" else item for item in seen] == naive(stream)


# ── MQTT 5: fast paths against the plain path ─────────────────────────────────────────────────

small_texts = st.sampled_from((b"", b"a", b"b/c", b"mqtt-x", "grün".encode(), b"x" * 130))
pairs = st.tuples(small_texts, small_texts)
message_blocks = st.builds(
    Properties,
    payload_format=st.none() | st.integers(0, 1),
    message_expiry=st.none() | st.integers(0, 2**32 - 1),
    content_type=st.none() | small_texts,
    response_topic=st.none() | st.just(b"answers"),
    correlation_data=st.none() | st.binary(max_size=3),
    user_properties=st.lists(pairs, max_size=3).map(tuple),
    topic_alias=st.sampled_from((None, None, None, None, 1, 2, 9)),
).map(block_of)
user_blocks = st.lists(
    st.tuples(st.sampled_from((b"a", b"bb")), st.sampled_from((b"1", b"22"))), max_size=3
).map(lambda found: block_of(Properties(user_properties=tuple(found))))
near_blocks = st.sampled_from(
    (
        b"",
        b"",
        b"&\0\1a\0\1b",
        b"&\0\1\0\0\1b",
        b"&\1\0\0\0\1b",
        b"&\0\1a\0\2b",
        b"&\0",
        b"\x02\0\0\0",
    )
)


@st.composite
def publishes_5(draw):
    qos = draw(qos_levels)
    block = draw(near_blocks | user_blocks | message_blocks)
    return encode.publish(
        draw(st.sampled_from((b"a", b"a", b"b", b""))),
        draw(st.sampled_from((b"xy", b"xy", b"z", b"", bytes(200)))),
        qos,
        retain=draw(st.booleans()),
        packet_id=draw(packet_ids) if qos else 0,
        block=block,
    )


@st.composite
def acks_5(draw):
    packet_id = draw(st.sampled_from((b"\0\1", b"\0\0", b"\7\7")))
    body = packet_id + draw(st.sampled_from((b"", b"\0", b"\0\0", b"\x10", b"\0\1", b"\0\0\0")))
    return bytes((draw(st.sampled_from((0x40, 0x50, 0x62, 0x70))), len(body))) + body


def apart(seen: list) -> list:
    """Events of single packets: how they were joined does not matter."""
    parts = []
    for event in seen:
        if isinstance(event, MqttPublishRun):
            each = event.each or [event.properties] * len(event.payloads)
            assert event.each is None or event.properties is None
            parts += [
                (event.topic, one, event.version, own)
                for one, own in zip(event.payloads, each, strict=True)
            ]
        elif isinstance(event, MqttAcks) and event.codes is None and event.properties is NONE:
            parts += [(event.kind, packet_id) for packet_id in event.packet_ids]
        else:
            parts.append(event)
    return parts


def plain_server() -> MqttServerMachine:
    machine = MqttServerMachine()
    machine.receive(encode.connect(b"ann", properties=NONE))
    machine.speak(SERVER_5._replace(fast_paths={}))
    machine.alias_max = 2
    return machine


def fast_server() -> MqttServerMachine:
    machine = MqttServerMachine()
    machine.receive(encode.connect(b"ann", properties=NONE))
    machine.alias_max = 2
    return machine


@given(st.data(), st.lists(publishes_5() | acks_5(), max_size=12))
def test_fast_paths_of_mqtt_5_read_what_the_plain_path_reads(data, packets):
    stream = bytearray(b"".join(packets))
    if stream and data.draw(st.booleans()):
        stream[data.draw(st.integers(0, len(stream) - 1))] = data.draw(st.integers(0, 255))
    pieces = data.draw(cut(bytes(stream)))
    fast, plain_path = fast_server(), plain_server()
    seen = [event for piece in pieces for event in fast.receive(piece)]
    expected = [event for piece in pieces for event in plain_path.receive(piece)]
    assert apart(seen) == apart(expected)
    assert (fast.closed, fast.pending_bytes) == (plain_path.closed, plain_path.pending_bytes)


@given(st.data(), st.lists(publishes_5() | acks_5(), max_size=12))
def test_a_client_of_mqtt_5_reads_the_same_with_and_without_fast_paths(data, packets):
    pieces = data.draw(cut(b"".join(packets)))
    fast, plain_path = MqttClientMachine(version=5), MqttClientMachine(version=5)
    plain_path.speak(CLIENT_5._replace(fast_paths={}))
    for machine in (fast, plain_path):
        machine.receive(encode.connack(False, 0, NONE))
        machine.alias_max = 2
    seen = [event for piece in pieces for event in fast.receive(piece)]
    expected = [event for piece in pieces for event in plain_path.receive(piece)]
    assert apart(seen) == apart(expected)


@given(st.lists(publishes_5(), max_size=12))
def test_frames_of_mqtt_5_are_forwarded_without_alias_and_with_all_else(packets):
    for event in fast_server().receive(b"".join(packets)):
        if isinstance(event, MqttPublishRun):
            reader = plain_server()
            reader.alias_max = 0  # an alias would be a violation
            sent = [part[:3] + headers_of(part[3]) for part in apart([event])]
            read = [part[:3] + headers_of(part[3]) for part in apart(reader.receive(event.frames))]
            assert sent == read


def headers_of(properties: MessageProperties | None) -> tuple:
    return () if properties is None else (properties.headers, properties.expiry_s)


@given(st.lists(st.tuples(texts, texts), max_size=3), st.data())
def test_what_is_proven_quickly_is_what_the_plain_path_finds(found, data):
    block = bytearray(block_of(Properties(user_properties=tuple(found))))
    if block and data.draw(st.booleans()):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    quick = proven(bytes(block)) if block else None
    try:
        plain_found = of_properties(properties_in(bytes(block), Carrier.PUBLISH))
    except PacketError:
        plain_found = None
    assert quick in {None, plain_found}
    is_simple = plain_found is not None and bool(found) and bytes(block).isascii()
    if is_simple and all(name and value for name, value in found) and b"mqtt-" not in block:
        assert isinstance(quick, MessageProperties)


@given(st.binary(max_size=12))
def test_text_is_what_survives_a_strict_decoder_and_has_no_nul(field):
    try:
        expected = "\0" not in field.decode("utf-8", "strict")
    except UnicodeDecodeError:
        expected = False
    assert is_text(field) == expected
