"""A small MQTT client, used by the command line and the tests."""
