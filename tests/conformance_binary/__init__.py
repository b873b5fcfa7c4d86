"""The binary protocol, sentence by sentence, against a running broker over real sockets."""
