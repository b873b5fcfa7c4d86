"""One package per protocol: a client's connection, from wire events to commands and back."""
