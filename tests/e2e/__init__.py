"""The broker as users run it: a process of its own, started, signalled, killed, starved."""
