"""The client side, what encoders refuse or correct, and columns."""

import pytest

from penstock.errors import LocalProtocolError
from penstock.limits import MIB
from penstock.model.columns import MessageColumns
from penstock.model.message import Extras, Signature
from penstock.obs.reasons import DisconnectReason
from penstock.wire.queue import QueueClientMachine, encode
from penstock.wire.queue._generated.queue_pb2 import Request, Response, Slice
from penstock.wire.queue.slices import columns_of, slice_of
from penstock.wire.violation import Violation
from tests.wire.queue_plain import framed

# ── A client's end ────────────────────────────────────────────────────────────────────────────


def test_a_body_that_is_no_response_is_the_end():
    machine = QueueClientMachine()
    ok, violation = machine.receive(encode.ok_run(1) + framed(b"\xff") + encode.ok_run(1))
    assert ok == Response(ok={})
    assert isinstance(violation, Violation)
    assert violation.reason is DisconnectReason.MALFORMED_PACKET
    assert machine.closed
    assert machine.receive(encode.ok_run(1)) == []


def test_a_response_of_a_kind_that_a_client_does_not_know_is_a_response_without_one():
    (response,) = QueueClientMachine().receive(framed(bytes.fromhex("ea0700 7805")))
    assert response.WhichOneof("kind") is None
    assert response.request_id == 5


def test_a_response_that_is_too_large_is_the_end():
    machine = QueueClientMachine(frame_bytes_max=10)
    detail = "frame of 11 bytes exceeds the limit of 10"
    assert machine.receive(framed(bytes(11))) == [
        Violation(DisconnectReason.PACKET_TOO_LARGE, detail)
    ]


# ── Encoders ──────────────────────────────────────────────────────────────────────────────────


def test_ok_is_written_as_often_as_asked_with_the_ids_given():
    assert encode.ok_run(3) == encode.response(Response(ok={})) * 3
    expected = [encode.response(Response(ok={}, request_id=value)) for value in (1, 300)]
    assert encode.ok_run(2, [1, 300]) == b"".join(expected)


def test_an_error_has_what_it_was_given():
    frame = encode.error("rate_limited", "later", retry_after_ms=250, request_id=9)
    (response,) = QueueClientMachine().receive(frame)
    fields = {"code": "rate_limited", "message": "later", "retry_after_ms": 250}
    assert response == Response(error=fields, request_id=9)
    (response,) = QueueClientMachine().receive(encode.error("not_leader", "", leader_addr="a:1"))
    assert response == Response(error={"code": "not_leader", "leader_addr": "a:1"})


def test_a_header_name_that_is_no_text_does_not_spoil_the_response():
    item = (1, 2, 3, 0, b"x", 4, 0, ((b"a\xff", b"\xff"),))
    (response,) = QueueClientMachine().receive(encode.polled([item]))
    (header,) = response.polled.items[0].headers
    assert (header.name, header.value) == ("a\ufffd", b"\xff")


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda: encode.produce(b"t", b"", seq=-1), id="negative seq"),
        pytest.param(lambda: encode.produce(b"t", b"", seq=2**64), id="seq of 65 bits"),
        pytest.param(lambda: encode.ack(b"t", b"g", -1), id="negative lease"),
        pytest.param(lambda: encode.ack(b"t", b"g", 1, request_id=2**64), id="id of 65 bits"),
        pytest.param(lambda: encode.produce(b"t", bytes(64 * MIB)), id="frame beyond the limit"),
        pytest.param(
            lambda: encode.request(Request(produce={"payload": bytes(64 * MIB)})),
            id="any request beyond the limit",
        ),
    ],
)
def test_the_impossible_is_refused(ask):
    with pytest.raises(LocalProtocolError):
        ask()


def test_the_largest_request_can_be_asked_for():
    assert len(encode.produce(b"t", bytes(64 * MIB - 13))) == 64 * MIB + 4


# ── Columns ───────────────────────────────────────────────────────────────────────────────────

SIGNED = Signature(2, 7, b"\xab" * 64, 1_700_000_000_000, b"12345678")
COLUMNS = MessageColumns(
    first_offset=40,
    count=2,
    base_sequence=1_000,
    time_ms=1_700_000_000_000,
    bounds=b"".join(bound.to_bytes(4, "little") for bound in (5, 6, 8)),
    blob=b"abb",
    run_starts=bytes(4),
    run_positions=bytes(4),
    run_times=bytes(4),
    run_flags=b"\x10",
    run_types=b"\x01",
    extras={
        0: Extras(headers=((b"name", b"\xff"), (b"", b"")), signature=SIGNED),
        1: Extras(due_ms=5, expires_ms=2**63),
    },
    producers=[(0, 2, "prodücer".encode(), 2**64 - 2)],
)


def test_columns_are_the_same_after_the_journey():
    travelled = Slice.FromString(slice_of(COLUMNS).SerializeToString())
    assert columns_of(travelled) == COLUMNS
