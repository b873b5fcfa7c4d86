"""The broker as a node: housekeeping, administration, its place in the cluster."""
