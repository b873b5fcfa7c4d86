"""Jobs that run on Spark: each is a function, and a name for ``penstock spark run``."""
