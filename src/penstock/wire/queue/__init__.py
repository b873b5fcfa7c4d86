"""The queue protocol: requests and responses as protocol buffers with a length prefix.

======================  ===========================================================================
``queue.proto``         the messages; ``_generated`` is the compiler's output
``machine``             what both ends share: chunks to frames
``server``, ``events``  the broker's end, and what it reports
``fast_paths``          requests that come in runs, recognised without parsing
``weight``              requests that are too expensive to parse, recognised before
``client``              the client's end
``encode``              messages to frames, the frequent ones by hand
``fields``              the rules of protocol buffers needed for that
``slices``              messages in bulk, as columns
======================  ===========================================================================

Bytes in, events out: no socket, no clock, no knowledge of leases.
"""

from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.queue.server import QueueServerMachine

__all__ = ["QueueClientMachine", "QueueServerMachine"]
