"""The door of the binary protocol.

====================  =============================================================================
``door``              accepts clients, and knows their ids
``parts``             what its connections share
``connection``        one client's connection: publishing, subscribing, what leaves, the end
``replies``           replies leave in the order of the requests, whatever the disk has to say first
``acknowledgements``  what a subscriber acknowledges: from sequences to places in the journal
``work``              the connection as a worker of queues
====================  =============================================================================

The connection makes the other three and gives each what it needs. They know one another only in
one direction: acknowledgements finish jobs, and both count with the replies.
"""

from penstock.doors.binary.connection import BinaryConnection
from penstock.doors.binary.door import BinaryDoor

__all__ = ["BinaryConnection", "BinaryDoor"]
