"""How fast topics become tables and tables topics, beside what Spark does with Parquet."""
