"""The queue protocol: requests and responses as protocol buffers, each with its length in front.

======================  ===========================================================================
``queue.proto``         the messages; ``_generated`` is what the compiler made of it
``machine``             what both ends share: pieces to frames
``server``, ``events``  the broker's end, and what it reports
``fast_paths``          requests that come in runs, recognised without being parsed
``weight``              requests that would cost too much, recognised before they are parsed
``client``              a client's end
``encode``              messages to frames, the frequent ones by hand
``fields``              the few rules of protocol buffers that are needed to do so
``slices``              messages in bulk, as columns
======================  ===========================================================================

Bytes in, events out. There is no socket and no clock here, and nobody knows what a lease is.
"""

from penstock.wire.queue.client import QueueClientMachine
from penstock.wire.queue.server import QueueServerMachine

__all__ = ["QueueClientMachine", "QueueServerMachine"]
