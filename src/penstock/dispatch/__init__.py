"""Work queues: which worker gets which job; leases, backlog, dead letters."""
