"""Reading the journal for clients: the feed of commits, cursors, changed topics."""
