"""Blocks: what the tail is folded into, from bytes to files, and what becomes of them."""
