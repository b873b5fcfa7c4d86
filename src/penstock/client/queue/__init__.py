"""The client of work queues, over the queue protocol: idempotent producers, groups, leases.

>>> from penstock.client import connect
>>> with connect(["127.0.0.1:1883"]) as client:  # doctest: +SKIP
...     client.produce("images", b"cat.png")
...     with client.subscribe("images", "resize", lambda job: print(job.payload)) as work:
...         work.wait()

There are two clients: ``QueueClient``, blocking, for any number of threads, and
``AsyncQueueClient`` for an event loop. Each operation is written once, in ``operations``.

**Guarantees.** A message is stored once, however often the connection is lost while it is produced:
the broker recognises it by producer id and number (``producer``). A job is leased to one consumer
of a group at a time, and delivered again if it is not acknowledged in time: *at least once*.

**Lost connections** are replaced, to the next address or to the leader that a node has named. A
call waits through that for ``timeout_s``, a subscription for ever. Jobs in hand when a broker dies
are acknowledged to the one that returns (``push``).

==================  =============================================================================
``operations``      every operation, as a coroutine over a link
``blocking``        the blocking client; ``link``: its socket, thread and clock
``asynchronous``    the asyncio client; ``async_link``: its transport and clock
``requests``        every request, and how its answer is read
``session``         protocol state over any number of connections; no socket, no clock
``push``            the same for a subscription
``push_loop``       the life of a subscription, as coroutines
``subscription``    threads for it; ``async_subscription``: tasks
``values``          arguments and results
``checks``          validation of arguments
``columns``         messages in bulk
``producer``        numbers and batches of messages
``server_pool``     which address to try next, and when
``heartbeat``       whether a silent broker is still there
``sockets``         options and errors of connections
``reports``         what a subscription reports of errors
==================  =============================================================================
"""
