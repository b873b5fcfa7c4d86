from collections.abc import Sequence

from penstock.store.message_columns import MessageColumns as MessageColumns
from penstock.store.message_columns import TopicBatch as TopicBatch

def encode(
    columns: MessageColumns,
    index: int,
    base_sequence: int,
    topic_ids: Sequence[int],
    first_offsets: Sequence[int],
    others: Sequence[tuple[int, bytes]],
) -> tuple[bytes, int, list[int], dict[int, memoryview]]: ...
