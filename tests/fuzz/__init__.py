"""Fuzzing: every decoder of what strangers send, and a live broker.

``python -m tests.fuzz`` runs the targets with atheris, guided by coverage, or with plain mutations
where atheris is not installed; ``python -m tests.fuzz --live`` sends mutated sessions to a broker.
A finding is written to ``corpus/NAME.txt`` and is a test from then on (``test_corpus.py``).
"""
