"""The RESP door: Redis clients on the broker's topics.

=================  ================================================================================
``connection``     one client's connection: what runs when
``calls``          a command on its way, and what is known of each command
``replies``        answers leave in the order of the questions
``commands``       all commands by name
``publishing``     PUBLISH
``subscribing``    SUBSCRIBE and its kin, PUBSUB
``subscriptions``  what a connection subscribes to, and how messages reach it
``replay``         what the journal holds of a topic, before it goes live
``greeting``       PING, HELLO, AUTH and other commands about the connection
``clients``        CLIENT
``introspection``  COMMAND, INFO
``keys``           DEL, EXISTS, EXPIRE and what else makes sense for topics
``transactions``   MULTI, EXEC
``streams``        the X commands, with ``stream_…`` and ``fields`` behind them
``queue``          PUSH, PULL
``outbox``         what waits to be written
``faults``         errors in the words of Redis
``unsupported``    commands that only Redis has, and what to use instead
=================  ================================================================================
"""
