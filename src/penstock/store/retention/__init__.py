"""Retention: which messages go, in slices between commits."""
