"""MQTT 3.1.1, statement by statement, against a running broker over real sockets."""
