"""The on-disk format of an archive, and how to read each row exactly once.

``layout`` has names and columns, ``sink_log`` reads what Spark's file sink has committed,
``manifest`` says what compaction has replaced, and ``snapshot`` combines them into the list of
files that make up the archive now. Directories are never listed to find rows.
"""
