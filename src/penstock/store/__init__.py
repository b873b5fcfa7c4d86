"""The journal on disk: batches, entries, indexes, retention, the writer thread.

Start with ``store.py`` (what a store guarantees), then read ``batch.py`` and ``entry.py`` (what is
written), ``lmdb_store.py`` (how), ``index.py`` (how it is found again), ``deletions.py`` and
``dropped.py`` (what readers skip) and ``retention.py``.
"""
