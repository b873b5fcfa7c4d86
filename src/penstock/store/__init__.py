"""The journal on disk; start with ``store.py``, ``batch.py``, ``entry.py``, ``lmdb_store.py``."""
