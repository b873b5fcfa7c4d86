from collections.abc import Callable

from penstock.wire.queue.encode import Item

def encode_deliveries(
    items: list[Item], is_framed: bool, whole: Callable[[Item], bytes]
) -> bytes: ...
def read_leases(
    data: bytes,
    position: int,
    parts: tuple[int, int, int],
    has_ids: bool,
    leases: list[int],
    request_ids: list[int],
) -> int: ...
