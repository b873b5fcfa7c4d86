"""Harnesses that several folders of unit tests share: parts of a broker on virtual time."""
