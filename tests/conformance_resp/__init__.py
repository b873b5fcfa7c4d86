"""Redis itself as the oracle: the same bytes to both, the same answer from both."""
