"""The way of a command to the disk: open batch, group commit, checkpoint, replay."""
