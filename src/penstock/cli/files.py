"""How many files a command may have open."""

import resource

__all__ = ["open_many_files"]


def open_many_files() -> None:
    """Allow as many as the system does, for commands that have all blocks open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
