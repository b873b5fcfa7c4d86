"""FetchMany: messages of many topics in bulk, in as many answers as it takes.

The loop judges the topics; a reader thread does a step of the scan and encodes it. A connection has
one read at a time, so the steps of a scan follow each other, also if the client has asked for
several. If a step fails, the scan is forgotten: its positions may be ahead of what was answered.
"""

from collections.abc import Sequence

from penstock.doors.queue.faults import refusal_fault, too_many
from penstock.doors.queue.fetch import MESSAGES_MAX, NO_TOPIC, RAW_BYTES_MAX
from penstock.doors.queue.operation import Requester
from penstock.doors.queue.replies import Slot
from penstock.doors.queue.scans import KeptScan
from penstock.limits import SCAN_TOPICS_MAX
from penstock.model.columns import ALL
from penstock.store.raw_slice import Column
from penstock.store.scan import Scan, ScanStep, ScanTopic
from penstock.store.store import Store
from penstock.trust.rights import Coverage
from penstock.trust.rules import Action
from penstock.wire.queue import bulk
from penstock.wire.queue._generated.queue_pb2 import FetchMany
from penstock.wire.queue.faults import BAD_REQUEST, Fault

NOTHING_ASKED = Fault(BAD_REQUEST, "name the topics, or the scan that is to go on")
UNEVEN = Fault(BAD_REQUEST, "offsets, end_offsets and incarnations: one for each topic, or none")


def fetch_many(client: Requester, message: FetchMany, slot: Slot) -> None:
    kept = _opened(client, message, slot) if message.topics else _continued(client, message, slot)
    if kept is not None:
        _read(client, message, kept, slot)


def _continued(client: Requester, message: FetchMany, slot: Slot) -> KeptScan | None:
    if not message.scan:
        slot.fail(NOTHING_ASKED)
        return None
    kept = client.door.scans.get(client.owner, message.scan)
    if kept is None:
        slot.answer(bulk.unknown_scan(slot.request_id))
    return kept


def _opened(client: Requester, message: FetchMany, slot: Slot) -> KeptScan | None:
    fault = too_many(message.topics, SCAN_TOPICS_MAX, "topics") or _uneven(message)
    if slot.is_refused(fault):
        return None
    names = [name.encode() for name in message.topics]
    if slot.is_refused(_topics_fault(client, names)):
        return None
    blank = (0,) * len(names)
    columns = (message.offsets, message.end_offsets, message.incarnations)
    rows = zip(range(len(names)), names, *(column or blank for column in columns), strict=True)
    scan = Scan([ScanTopic(*row) for row in rows], message.columns or ALL)
    if not message.scan:
        return KeptScan(scan)
    return client.door.scans.put(client.owner, message.scan, scan)


def _uneven(message: FetchMany) -> Fault | None:
    columns = (message.offsets, message.end_offsets, message.incarnations)
    return UNEVEN if any(len(c) not in {0, len(message.topics)} for c in columns) else None


def _topics_fault(client: Requester, names: Sequence[bytes]) -> Fault | None:
    """Why one of the topics may not be read. Who may read everything costs next to nothing."""
    door, principal = client.door, client.principal
    reads_all = principal.rights.coverage(Action.READ, b"#") is Coverage.ALL
    for name in names:
        if name.startswith(b"$"):
            fault = door.read_fault(name)
            if fault is not None:
                return fault
        elif reads_all:
            continue
        refusal = door.admission.judge(principal, Action.READ, name)
        if refusal is not None:
            return refusal_fault(refusal)
    return None


def _read(client: Requester, message: FetchMany, kept: KeptScan, slot: Slot) -> None:
    store, request_id, number = client.door.store, slot.request_id, message.scan
    count_max = min(message.max_messages, MESSAGES_MAX) or MESSAGES_MAX
    bytes_max = client.door.connections.budget.read_bytes_max(
        min(message.max_bytes, RAW_BYTES_MAX) or RAW_BYTES_MAX
    )

    def job() -> bytes:
        if kept.is_forgotten:  # while it waited for its turn, perhaps because rights have changed
            return bulk.unknown_scan(request_id)
        try:
            return _step(store, kept.scan, (count_max, bytes_max), request_id, is_kept=number > 0)
        except BaseException:
            kept.is_forgotten = True
            raise

    def answered(frames: bytes) -> bytes:
        if kept.is_forgotten or kept.scan.is_done:
            client.door.scans.finish(client.owner, number, kept)
        return frames

    client.disk_reads.run(slot, job, answered)


def _step(
    store: Store, scan: Scan, bounds: tuple[int, int], request_id: int, *, is_kept: bool
) -> bytes:
    """Read and encode; columns are views that are valid within ``make``, states are asked after."""

    def make(step: ScanStep) -> bytes:
        pieces: list[Column] = bulk.scanned(*step)
        if is_kept and not scan.is_done:
            return bulk.fetched_many(pieces, request_id)
        return b"".join(pieces)

    found = store.read_raw_many(scan, *bounds, make)
    is_last = scan.is_done
    if is_kept and not is_last:
        return found
    states = [_state(store, topic) for topic in scan.topics]
    return bulk.fetched_many([found, bulk.scan_state(states, is_last=is_last)], request_id)


def _state(store: Store, topic: ScanTopic) -> bulk.Bulk:
    info = store.topic(topic.name)
    if info is None:
        return NO_TOPIC
    return bulk.Bulk(info.id, info.first_offset, info.next_offset, topic.next)
