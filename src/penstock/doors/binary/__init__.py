"""The door of the binary protocol.

====================  =============================================================================
``door``              accepts clients, and knows their ids
``parts``             what its connections share
``connection``        one client's connection: requests in order, the end
``publishing``        publishes, signed or not
``subscriptions``     topics, filters and queues that a client subscribes to, and their messages
``acknowledgements``  what a subscriber acknowledges: from sequences to offsets
``queue_worker``      the connection as a worker of queues
``replies``           sends replies in the order of the requests
====================  =============================================================================
"""

from penstock.doors.binary.connection import BinaryConnection
from penstock.doors.binary.door import BinaryDoor

__all__ = ["BinaryConnection", "BinaryDoor"]
