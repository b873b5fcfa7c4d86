"""Other people's clients against the broker, in this process, on real sockets."""
