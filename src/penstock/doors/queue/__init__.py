"""The door of the queue protocol.

``operations`` declares each operation once; ``connection`` decides when it runs and what it waits
for; ``replies`` keeps the order of responses. Messages come in by ``producing``, and leave by
``poll`` (once), ``push`` (Subscribe) and ``fetch`` (in bulk).
"""
