"""MQTT 5.0, chapter by chapter, over real sockets."""

LACKING = "version 5 at the MQTT door"
"""What the broker lacks so that none of these tests can pass: they are then expected to fail."""
