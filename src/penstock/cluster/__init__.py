"""Several brokers, one journal: what drives the consensus core with real disks and sockets."""
