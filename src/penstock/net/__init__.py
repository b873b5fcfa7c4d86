"""Listeners, protocol detection, connections and time-outs: the thin edge around the core."""
