"""Consensus without I/O: who leads, what the log is, and how far it is committed.

The shape is that of etcd's ``RawNode``: what happens (time passes, a message came, something is to
be proposed, a batch is on disk) goes in by calls; what is to be done (write this, send that, apply
those) comes out as a ``Ready``. Nothing in here knows a clock, a socket, a disk or a dice, which
is what lets published traces, a simulator and planted faults all exercise the code that runs in
production.

``types``       what goes over the wire and onto the disk
``quorum``      majorities, and majorities of two configurations at once
``confchange``  how a configuration becomes the next one
``progress``    what a leader knows of each follower; ``inflights``, how much is on its way there
``tracker``     all followers together: votes, the configuration, who was heard of
``log``         the log: what is stable below, what is not yet above
``read_only``   reads that wait until the leader is known to lead
``participant`` what one participant knows, and how it changes roles
``elections``   campaigns and votes; ``following`` and ``leading``, what followers and leaders do
``replication`` how entries get to others; ``membership``, how a change of the members is applied
``node``        one consensus participant: terms, ticks, handlers by (role, message)
``raw_node``    the calls for whoever drives it; ``ready``, what it hands out
``config``, ``errors``, ``conf_entries``, ``spelling``: settings, faults, encoding, trace words
"""
