"""Redis Streams on the broker's topics.

A stream is a topic: whatever a client of any protocol publishes is an entry, and what XADD adds is
a message to all of them. New entries reach the consumers of a group by ``group_queues`` if only
streams use the group, else by ``worker``, among the workers of other doors.
"""
