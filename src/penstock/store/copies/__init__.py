"""Copies of a store: for a backup, and for another node."""
