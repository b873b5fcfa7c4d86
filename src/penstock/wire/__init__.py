"""Sans-IO codecs and connection state machines: bytes in, events out."""
