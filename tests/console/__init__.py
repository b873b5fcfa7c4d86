"""The console: its files, its modules, and its pages in a real browser on a real broker."""
