"""Broker semantics, pure: routing, sessions, retained messages; steps in, effects out."""
