"""Work queues by name: topics that begin with ``q:``, and their one group.

Clients of the binary protocol and of RESP know queues, not groups: each job goes to one worker, and
waits while there is none. A queue is a topic like any other, and its workers are a group like any
other (``dispatch/dispatchers``), so that clients of the queue protocol may work on it as well.
"""

PREFIX = b"q:"
"""How the names of queues' topics begin."""

WORKERS = b"workers"
"""The group that shares a queue's jobs."""


def is_queue(topic: bytes) -> bool:
    return topic.startswith(PREFIX)
