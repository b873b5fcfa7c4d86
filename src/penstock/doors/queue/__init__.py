"""The door of the queue protocol.

==================  ===============================================================================
``door``            makes connections; ``parts``: what they use of the broker
``operation``       what an operation is; ``operations``: all of them, declared once each
``connection``      one client's connection: what runs when, what it waits for, how it ends
``replies``         responses leave in the order of the requests, except those with an id
``producing``       Produce, ProduceMany
``poll``            Poll: a worker that takes messages once
``push``            Subscribe: a worker that stays, keeps its leases alive and knows what it sent
``fetch``           Fetch, Locate: messages in bulk, offsets by time
``changes``         Changes: which topics were written to; ``topic_filters`` says which match
``listing``         ListTopics, ListGroups, ListKeys, Stats
``staging``         Stage, CommitStage, AbortStage, ListSinks, ForgetSink
``request_fields``  fields that several requests share
``disk_reads``      what is read off the loop, one request after the other
``redirects``       what a node answers that does not lead
``faults``          errors, in the codes of the protocol
==================  ===============================================================================
"""
