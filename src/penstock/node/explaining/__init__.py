"""Gathers the facts from which ``explain`` derives what became of something."""
