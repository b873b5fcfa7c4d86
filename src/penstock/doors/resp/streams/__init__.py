"""Redis Streams on the broker's topics.

A stream is a topic: whatever a client of any protocol publishes is an entry, and what XADD adds is
a message to all of them.

====================  =============================================================================
``entries``           XADD, XDEL, XTRIM
``reading``           XLEN, XRANGE, XREVRANGE, XREAD; ``reader`` reads entries from the journal
``groups``            XGROUP, XREADGROUP, XACK
``group_queues``      how new entries reach the consumers of a group that only streams use
``worker``            the same, of a group that workers of other doors share
``waiting_consumer``  a consumer that waits for new entries
``pending``           XPENDING, XCLAIM, XAUTOCLAIM
``info``              XINFO
``options``           the arguments of commands
``ids``               ids and positions of entries; ``known_ids``: those given to clients lately
``fields``            the fields of an entry as a message
====================  =============================================================================
"""
