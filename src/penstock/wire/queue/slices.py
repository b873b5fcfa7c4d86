"""Messages in bulk: ``Slice`` of ``queue.proto`` to and from columns."""

from collections.abc import Iterable
from typing import Final

from penstock.model.columns import MessageColumns
from penstock.model.message import Extras, Signature
from penstock.wire.queue._generated.queue_pb2 import Extra, Header, ProducerRun, Slice


def slice_of(columns: MessageColumns) -> Slice:
    return Slice(
        first_offset=columns.first_offset,
        count=columns.count,
        base_sequence=columns.base_sequence,
        time_ms=columns.time_ms,
        bounds=columns.bounds,
        payloads=columns.blob,
        run_starts=columns.run_starts,
        run_positions=columns.run_positions,
        run_times=columns.run_times,
        run_flags=columns.run_flags,
        run_types=columns.run_types,
        extras=[_extra(number, extras) for number, extras in columns.extras.items()],
        producers=[
            ProducerRun(number=number, count=count, producer_id=producer.decode(), seq=seq)
            for number, count, producer, seq in columns.producers
        ],
    )


def columns_of(received: Slice) -> MessageColumns:
    return MessageColumns(
        first_offset=received.first_offset,
        count=received.count,
        base_sequence=received.base_sequence,
        time_ms=received.time_ms,
        bounds=received.bounds,
        blob=received.payloads,
        run_starts=received.run_starts,
        run_positions=received.run_positions,
        run_times=received.run_times,
        run_flags=received.run_flags,
        run_types=received.run_types,
        extras={extra.number: _extras(extra) for extra in received.extras},
        producers=[
            (run.number, run.count, run.producer_id.encode(), run.seq) for run in received.producers
        ],
    )


def _extra(number: int, extras: Extras) -> Extra:
    signature = extras.signature or _NONE
    return Extra(
        number=number,
        headers=_headers(extras.headers),
        signature_version=signature.version,
        key_id=signature.key_id,
        signature=signature.signature,
        signed_ms=signature.signed_ms,
        nonce=signature.nonce,
        due_ms=extras.due_ms,
        expires_ms=extras.expires_ms,
    )


def _headers(headers: Iterable[tuple[bytes, bytes]]) -> list[Header]:
    """Invalid UTF-8 names are replaced, as in ``encode``."""
    return [Header(name=name.decode(errors="replace"), value=value) for name, value in headers]


def _extras(extra: Extra) -> Extras:
    signature = None
    if extra.signature_version:
        signature = Signature(
            extra.signature_version, extra.key_id, extra.signature, extra.signed_ms, extra.nonce
        )
    headers = tuple((header.name.encode(), header.value) for header in extra.headers)
    return Extras(headers, signature, extra.due_ms, extra.expires_ms)


_NONE: Final = Signature(0, 0, b"")  # version 0: there is none
