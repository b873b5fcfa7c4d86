"""How fast topics become tables and tables topics, compared with Spark and Parquet."""
