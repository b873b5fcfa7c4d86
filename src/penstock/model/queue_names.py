"""Work queues by name: topics that begin with ``q:``, and the one group of their workers."""

PREFIX = b"q:"

WORKERS = b"workers"


def is_queue(topic: bytes) -> bool:
    return topic.startswith(PREFIX)
