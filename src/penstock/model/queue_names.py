"""Work queues by name: topics that begin with ``q:``, and the one group of their workers."""

PREFIX = b"q:"
"""How the names of queues' topics begin."""

WORKERS = b"workers"
"""The group that shares a queue's jobs."""


def is_queue(topic: bytes) -> bool:
    return topic.startswith(PREFIX)
