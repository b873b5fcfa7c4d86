"""Staged commits: how the Spark sink's rows become messages exactly once."""
