"""The on-disk format of an archive, and how to read each row exactly once."""
