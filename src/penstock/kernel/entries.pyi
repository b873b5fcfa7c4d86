from collections.abc import Callable

from penstock.model.columns import MessageColumns

def encode_entries(
    part: MessageColumns, alone: Callable[[int], bytes]
) -> tuple[list[bytes], list[bytes]]: ...
