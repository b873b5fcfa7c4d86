"""Spark data source, sink and streaming jobs, through PySpark: the extra ``penstock-mq[spark]``.

Nothing outside this package imports it, except the ``penstock spark`` commands. Spark finds the
data source (``source``, ``sink``) through the module ``pyspark_penstock``. ``pipelines`` are the
jobs, ``archived`` is the archive format; ``history`` reads archive and broker as one table.
"""
