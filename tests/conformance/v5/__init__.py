"""MQTT 5.0, chapter by chapter, over real sockets."""

LACKING = ""
"""What the broker lacks so that none of these tests can pass: they are then expected to fail."""
