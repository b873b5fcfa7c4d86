"""Topics as tables, tables as topics: the data pipeline that runs on Spark, through PySpark.

An extra, ``penstock[spark]``; nothing outside this package imports it, except the command line when
it is asked for ``penstock spark …``.
"""
