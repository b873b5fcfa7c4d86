"""Access files of other brokers, as documents. A line that is not understood imports nothing."""
