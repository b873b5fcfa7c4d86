"""For those who build on Penstock: an in-process broker with a virtual clock."""
