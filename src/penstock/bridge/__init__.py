"""Bridges: copies messages from and to other MQTT brokers, as a client of both."""
