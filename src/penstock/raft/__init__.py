"""Consensus without I/O: who leads, what the log is, and how far it is committed.

The shape is that of etcd's ``RawNode``: events (a tick, a message, a proposal, a durable write) go
in by calls; work (write this, send that, apply those) comes out as a ``Ready``. Nothing in here has
a clock, a socket, a disk or randomness, so published traces, a simulator and planted faults all
exercise the code that runs in production.

``types``       what goes over the wire and onto the disk
``quorum``      majorities, and majorities of two configurations at once
``confchange``  how a configuration becomes the next one
``progress``    what a leader knows of each follower; ``inflights``, what is in flight to it
``tracker``     all followers together: votes, the configuration, activity
``log``         the log: stable entries below, unstable ones above
``read_only``   linearizable reads
``participant`` the state of one participant, and its role changes
``elections``   campaigns and votes; ``following`` and ``leading``, what followers and leaders do
``replication`` how entries get to others; ``membership``, how a configuration change is applied
``node``        one participant: terms, ticks, handlers by (role, message)
``raw_node``    the interface for the driver; ``ready``, the work that it hands out
``config``, ``errors``, ``conf_entries``, ``trace_names``: settings, errors, encoding, names
"""
