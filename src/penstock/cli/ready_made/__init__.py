"""What ``penstock generate`` prints: files of other programs, made for this broker.

Each module makes one kind of file and knows nothing of the command line. ``deploy/`` has the same
files with the defaults; ``make docs`` writes them, and a test compares.
"""
