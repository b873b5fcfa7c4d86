"""What an archive looks like on disk, and how to read it without seeing a row twice or not at all.

``layout`` has the names and columns, ``sink_log`` reads what Spark's file sink has committed,
``manifest`` says what compaction has replaced, and ``snapshot`` is the sum: the files that are the
archive at this moment. Nobody lists directories to find rows.
"""
