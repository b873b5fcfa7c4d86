"""Spark data source, sink and streaming jobs, through PySpark.

This is the extra ``penstock-mq[spark]``. Nothing outside this package imports it, except the
``penstock spark`` commands. Spark finds the data source through the module ``pyspark_penstock``.

===============  =================================================================================
reading          ``source``, ``batch``, ``stream``; pure decisions in ``offsets`` and ``planning``;
                 fetching in ``topic_watch``, ``reading``, ``columns``; loss in ``data_loss``
writing          ``sink``; ``blocks`` and ``staging`` send rows; ``identity`` names the task
setup            ``session``, ``java``, ``spark_home``, ``spark_defaults``, ``doctor``, ``cluster``
jobs             ``pipelines``; ``archived`` is the archive format; ``history`` reads the archive
                 and the broker as one table
demo             ``demo``
===============  =================================================================================
"""
