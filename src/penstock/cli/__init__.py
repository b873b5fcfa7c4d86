"""The one command, `penstock`."""
