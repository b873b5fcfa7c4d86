"""MQTT 3.1.1: decoding, encoding, and the machines of both ends of a connection."""
