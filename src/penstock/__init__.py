"""Penstock: one durable journal behind every protocol."""

__version__ = "0.1.0"
