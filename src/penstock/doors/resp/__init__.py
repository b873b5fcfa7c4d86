"""The RESP door: Redis clients on the broker's topics.

=================  ================================================================================
``door``           makes connections; ``parts``: what they share
``connection``     one client's connection: what runs when
``calls``          the client as commands see it, a command on its way, what a command is
``replies``        replies leave in the order of the commands
``commands``       all commands by name
``publishing``     PUBLISH
``subscribing``    SUBSCRIBE and the like, PUBSUB
``subscriptions``  what a connection subscribes to, and how messages reach it
``replay``         what the journal holds of a topic, sent before it goes live
``greeting``       PING, HELLO, AUTH and other commands about the connection
``clients``        CLIENT
``registry``       numbers of connections, MONITOR
``introspection``  COMMAND, INFO
``keys``           DEL, EXISTS, EXPIRE and what else makes sense for topics
``transactions``   MULTI, EXEC
``queue``          PUSH, PULL, ACK; ``pulled_jobs``: what a client has to acknowledge
``streams``        the X commands
``tasks``          commands that are coroutines; ``awaiting``: what they wait for
``confirming``     reads that need a quorum, READONLY; ``reads``: the barrier they pass
``outbox``         what waits to be written
``faults``         errors in the words of Redis
``unsupported``    commands that only Redis has, and what to use instead
=================  ================================================================================
"""
