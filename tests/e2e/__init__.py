"""The broker as users run it: a process that is started, signalled, killed, starved."""
