"""The journal on disk: batches, entries, indexes, retention, the writer thread.

Start reading at ``store.py`` (what a store promises), then ``batch.py`` and ``entry.py`` (what is
written), ``lmdb_store.py`` (how), ``index.py`` (how it is found again), ``deletions.py`` and
``dropped.py`` (what is passed over) and ``retention.py``.
"""
