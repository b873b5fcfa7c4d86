"""Observability: counters, reasons for disconnects and drops, logging."""
