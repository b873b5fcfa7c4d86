"""The journal on disk: batches, entries, indexes, retention, the writer thread."""
