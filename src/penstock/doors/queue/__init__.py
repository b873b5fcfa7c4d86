"""The door of the queue protocol.

==============  ===================================================================================
``connection``  one client's connection: what runs when, what it waits for, how it ends
``replies``     responses leave in the order of the requests, save those with an id
``calls``       all requests by kind, and what the plain ones do
``producing``   Produce and ProduceMany
``terms``       what polls, subscriptions and others say alike: which messages, for how long
``poll``        Poll: a worker that takes messages once
``push``        Subscribe: a worker that stays, keeps its leases alive and knows what it sent
``disk_reads``     what is read off the loop, one after the other
``fetch``       Fetch and Locate: messages in bulk, offsets by time
``listing``     ListTopics, ListGroups, Stats
``faults``      the codes of errors, and who may do what to which topic
==============  ===================================================================================
"""

from penstock.doors.queue.connection import QueueConnection

__all__ = ["QueueConnection"]
