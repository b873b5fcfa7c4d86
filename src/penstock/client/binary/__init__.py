"""Clients of the binary protocol: publishers, exactly-once subscribers, queues; signed or not.

>>> from penstock.client import Publisher, Subscriber
>>> with Publisher(port=1883) as publisher:  # doctest: +SKIP
...     publisher.publish("pump/7/pressure", b"4.2")  # returns once the broker's disk has it
>>> with Subscriber("billing", "pump/7/pressure", port=1883) as subscriber:  # doctest: +SKIP
...     for message in subscriber:  # each is acknowledged when the next is asked for
...         print(message.topic, message.payload)

Each comes in two forms: blocking, and with ``Async`` in front for an event loop. Each operation is
written once, in ``operations``.

**Guarantees.** A publisher sends again what was not confirmed: *at least once*. A subscriber has a
client id under which the broker remembers, on its disk, what was acknowledged; together with what
this process remembers, each message is handed out *exactly once* for as long as the process lives.
A process that dies between handling a message and acknowledging it gets it again: only the
application can make these two one. A job of a queue is done *at least once*.

**Lost connections** are replaced, at growing intervals with jitter, and everything resumes; the
application notices a pause. Only errors that a retry cannot cure are raised.

=================  =============================================================================
``operations``     every operation, as a coroutine over a link
``blocking``       the blocking clients; ``link``: their socket
``asynchronous``   the asyncio clients; ``async_link``: their streams
``session``        protocol state over any number of connections; no socket, no clock
``ack_tracker``    which messages are in hand, handled, acknowledged, confirmed
``inbox``          verifying, withholding and handing out; failed jobs
``timing``         when to ping, when to give up, when to retry; time is a parameter
``manager``        session, inbox and timing from connection to connection, for both links
``signing``        key files, signing, local verification
``settings``       the keywords of all clients
=================  =============================================================================
"""
