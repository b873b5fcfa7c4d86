"""Why it came to this: what became of a client, a message, a topic or a publish, from facts."""
