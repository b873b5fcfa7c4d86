"""The queue protocol: requests and responses as protocol buffers with a length prefix.

Bytes in, events out: no socket, no clock, no knowledge of leases. ``queue.proto`` has the messages;
frequent ones are read and written by hand (``fast_paths``, ``encode``).
"""

from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.queue.server import QueueServerMachine

__all__ = ["QueueClientMachine", "QueueServerMachine"]
