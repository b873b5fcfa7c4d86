"""Bringing messages and answers to connected clients."""
