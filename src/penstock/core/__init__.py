"""Broker semantics, pure: routing, sessions, groups, retained messages."""
