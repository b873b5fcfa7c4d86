"""What is fuzzed: a function of bytes for each decoder, which raises if a law is broken.

The laws: a decoder never raises anything but the errors it documents, its memory is bounded by its
limit, and a stream means the same however it is cut.
"""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from penstock.access.documents import changes_of, read_document
from penstock.access.imports.faults import ImportFault
from penstock.access.imports.mosquitto import imported as import_mosquitto
from penstock.access.imports.redis import imported as import_redis
from penstock.cluster.faults import PeerFault
from penstock.cluster.frames import decode_frame
from penstock.cluster.framing import PeerFrameReader
from penstock.cluster.snapshot_frames import decode_snapshot_frame, decode_snapshot_reply
from penstock.config.load import load
from penstock.config.problems import ConfigProblemsError
from penstock.errors import PenstockError, RemoteProtocolError
from penstock.model.topic import filter_fault
from penstock.net.detect import detect
from penstock.store.entry import decode as decode_entry
from penstock.trust.acl import compile_acl, patterns_fault
from penstock.trust.book import AccessBook
from penstock.trust.key_logins import key_id_of, parse_key_password
from penstock.trust.passwords import hash_fault
from penstock.trust.rights import Coverage, NamedRule, Rights
from penstock.trust.rows import User
from penstock.trust.rules import Action, parse_rule
from penstock.trust.scram import ScramServer, read_client_first
from penstock.trust.scram_verifier import made_up_verifier, read_verifier
from penstock.trust.secrets import parse_token
from penstock.wire.binary import BinaryClientMachine, BinaryServerMachine
from penstock.wire.mqtt import MqttClientMachine, MqttServerMachine
from penstock.wire.mqtt.envelope import opened
from penstock.wire.proxy import ProxyFault, decode_header
from penstock.wire.queue import QueueServerMachine
from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.resp import RespServerMachine
from penstock.wire.websocket import Ping, WebSocketClientMachine, WebSocketServerMachine
from tests.fuzz.blocks import read_all, resealed
from tests.wire import queue_plain
from tests.wire.binary import vectors as binary_plain
from tests.wire.resp import commands as resp_plain
from tests.wire.vectors import CONNECT
from tests.wire.vectors import plain as mqtt_plain

Target = Callable[[bytes], None]

FRAME_BYTES_MAX = 4_096  # limits that a fuzzer reaches with small inputs
PENDING_BYTES_MAX = 2 * FRAME_BYTES_MAX
PROXY_BYTES_MAX = 536

TARGETS: dict[str, Target] = {}


def target(function: Target) -> Target:
    TARGETS[function.__name__] = function
    return function


def pieces(data: bytes) -> list[bytes]:
    """Cut a stream at places that the first byte chooses: single bytes, or longer pieces."""
    size = data[0] % 16 + 1 if data else 1
    return [data[at : at + size] for at in range(0, len(data), size)]


def same_however_cut(whole: Iterable[object], cut: Iterable[object]) -> None:
    whole, cut = list(whole), list(cut)
    assert whole == cut, f"whole: {whole}\ncut: {cut}"


# ── Protocols ─────────────────────────────────────────────────────────────────────────────────


def _mqtt_server() -> MqttServerMachine:
    return MqttServerMachine(FRAME_BYTES_MAX, FRAME_BYTES_MAX)


@target
def mqtt(data: bytes) -> None:
    for before in (b"", CONNECT):
        stream, machine, other = before + data, _mqtt_server(), _mqtt_server()
        whole = mqtt_plain(machine.receive(stream))
        cut = [event for piece in pieces(stream) for event in mqtt_plain(other.receive(piece))]
        same_however_cut(whole, cut)
        assert machine.pending_bytes <= PENDING_BYTES_MAX


@target
def mqtt_client(data: bytes) -> None:
    machine, other = MqttClientMachine(FRAME_BYTES_MAX), MqttClientMachine(FRAME_BYTES_MAX)
    whole = mqtt_plain(machine.receive(data))
    cut = [event for piece in pieces(data) for event in mqtt_plain(other.receive(piece))]
    same_however_cut(whole, cut)


@target
def resp(data: bytes) -> None:
    for is_trusted in (False, True):
        machine, other = (
            RespServerMachine(bulk_bytes_max=FRAME_BYTES_MAX, command_bytes_max=FRAME_BYTES_MAX)
            for _ in range(2)
        )
        machine.is_trusted = other.is_trusted = is_trusted
        # What a stranger may not send is judged with the next bytes: a login may come before it.
        whole = resp_plain.fed(machine, [data, b""])
        same_however_cut(whole, resp_plain.fed(other, [*pieces(data), b""]))
        assert machine.pending_bytes <= 65_536 + PENDING_BYTES_MAX


@target
def binary(data: bytes) -> None:
    machine, other = (BinaryServerMachine(FRAME_BYTES_MAX, 256) for _ in range(2))
    same_however_cut(binary_plain.feed(machine, [data]), binary_plain.feed(other, pieces(data)))
    assert machine.pending_bytes <= PENDING_BYTES_MAX


@target
def binary_client(data: bytes) -> None:
    machine, other = BinaryClientMachine(), BinaryClientMachine()
    same_however_cut(binary_plain.feed(machine, [data]), binary_plain.feed(other, pieces(data)))


@target
def queue(data: bytes) -> None:
    machine, other = (QueueServerMachine(FRAME_BYTES_MAX, FRAME_BYTES_MAX) for _ in range(2))
    same_however_cut(queue_plain.feed(machine, [data]), queue_plain.feed(other, pieces(data)))
    assert machine.pending_bytes <= PENDING_BYTES_MAX


@target
def websocket(data: bytes) -> None:
    for kind in (WebSocketServerMachine, WebSocketClientMachine):
        machine, other = kind(), kind()
        payload, events = machine.receive(data)
        parts = [other.receive(piece) for piece in pieces(data)]
        assert payload == b"".join(part for part, _ in parts)
        # Of the pings of a read only the last is reported.
        same_however_cut(_ends(events), _ends(event for _, more in parts for event in more))
        assert len(payload) <= len(data)


def _ends(events: Iterable[object]) -> list[object]:
    return [event for event in events if not isinstance(event, Ping)]


@target
def queue_client(data: bytes) -> None:
    machine = QueueClientMachine()
    for piece in pieces(data):
        machine.receive(piece)


@target
def first_bytes(data: bytes) -> None:
    detect(data[:16])


@target
def proxy_header(data: bytes) -> None:
    """A header is found at the same place however much of what follows has come."""
    try:
        header = decode_header(data)
    except ProxyFault:
        return
    if header is not None:
        assert decode_header(data[: header.size]) == header
        assert 0 < header.size <= PROXY_BYTES_MAX


# ── Between nodes ─────────────────────────────────────────────────────────────────────────────


def _frames(chunks: Iterable[bytes]) -> list[object]:
    reader, found = PeerFrameReader(FRAME_BYTES_MAX), list[object]()
    try:
        for chunk in chunks:
            reader.append(chunk)
            while (payload := reader.next()) is not None:
                found.append(payload)
    except PeerFault as fault:
        found.append(fault.reason)
    return found


@target
def peer_frames(data: bytes) -> None:
    same_however_cut(_frames([data]), _frames(pieces(data)))
    for decode in (decode_frame, decode_snapshot_frame, decode_snapshot_reply):
        with contextlib.suppress(RemoteProtocolError):
            decode(data)


@target
def journal_entry(data: bytes) -> None:
    for verify in (True, False):
        with contextlib.suppress(PenstockError):
            decode_entry(data, verify=verify)


@target
def block(data: bytes) -> None:
    """As it is, and with checksums that are right: those protect from chance, not from malice."""
    for content in (data, resealed(data)):
        with contextlib.suppress(PenstockError):
            read_all(content)


# ── Users ──────────────────────────────────────────────────────────────────────────────────────


@target
def password_hash(data: bytes) -> None:
    """A hash from a file is bounded before anything is computed."""
    text = data.decode("utf-8", "surrogateescape")
    if not hash_fault(text):
        User("ann", password=text).fault()


@target
def scram(data: bytes) -> None:
    """Nobody gets in who does not know a password, whatever they send."""
    first, _, last = data.partition(b"\n")
    read_verifier(first.decode("utf-8", "surrogateescape"), "")
    with contextlib.suppress(RemoteProtocolError):
        client = read_client_first(first)
        server = ScramServer(client, made_up_verifier(b"key", client.user, 4_096), b"server-nonce")
        assert server.finish(last) is None


@target
def token(data: bytes) -> None:
    found = parse_token(data)
    assert found is None or found.secret.decode() not in repr(found)
    parse_key_password(data)
    key_id_of(data.decode("utf-8", "surrogateescape"))


@target
def mosquitto_files(data: bytes) -> None:
    passwords, _, acl = data.decode("utf-8", "surrogateescape").partition("\n\n")
    with contextlib.suppress(ImportFault):
        import_mosquitto(passwords, acl)


@target
def redis_file(data: bytes) -> None:
    with contextlib.suppress(ImportFault):
        import_redis(data.decode("utf-8", "surrogateescape"))


@target
def access_file(data: bytes) -> None:
    """What can be read either is applied as a whole, or names what is wrong."""
    book = AccessBook()
    try:
        document = read_document(data.decode("utf-8", "surrogateescape"))
        changes = list(changes_of(book, document, 0))
    except (ImportFault, ValueError):
        return
    after = book.preview(changes)
    assert isinstance(after, AccessBook) or after


# ── Configuration, rules, names ───────────────────────────────────────────────────────────────


@target
def configuration(data: bytes) -> None:
    with NamedTemporaryFile(suffix=".toml") as file:
        Path(file.name).write_bytes(data)
        with contextlib.suppress(ConfigProblemsError):
            load(file.name, {}, {})


@target
def rules(data: bytes) -> None:
    """A rule, a client id and a topic, one per line: the verdict agrees with its explanation."""
    text, _, rest = data.partition(b"\n")
    client_id, _, topic = rest.partition(b"\n")
    try:
        rule = parse_rule(text.decode("utf-8", "surrogateescape"))
    except ValueError:
        return
    assert parse_rule(rule.text) == rule
    rights = Rights([NamedRule("r", 1, rule)], "ann", client_id.decode("utf-8", "replace"))
    for action in Action:
        assert rights.may(action, topic) == rights.explain(action, topic).is_allowed
    if not filter_fault(topic):
        for action in (Action.PUBLISH, Action.SUBSCRIBE):
            assert isinstance(rights.coverage(action, topic), Coverage)


@target
def key_patterns(data: bytes) -> None:
    patterns, _, topic = data.partition(b"\n")
    text = patterns.decode("utf-8", "surrogateescape")
    if not patterns_fault(text):
        compile_acl(text)(topic)


@target
def envelope(data: bytes) -> None:
    opened(data)
