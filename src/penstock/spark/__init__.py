"""Topics as tables, tables as topics: the data pipeline that runs on Spark, through PySpark.

An extra, ``penstock-mq[spark]``; nothing outside this package imports it, except the command line
when it is asked for ``penstock spark …``. Spark finds the data source by the module
``pyspark_penstock``.

================  ================================================================================
reading           ``source``, ``batch``, ``stream``; ``offsets`` and ``planning`` decide, purely;
                  ``watch``, ``reading``, ``columns`` fetch; ``loss`` tells what is gone
writing           ``sink``; ``blocks`` and ``staging`` send; ``identity`` says who a task is
getting started   ``session``, ``java``, ``home``, ``defaults``; ``doctor``; ``cluster``
jobs              ``pipelines``; ``archived`` is the format of the archive, ``history`` reads it
                  together with the broker
show              ``demo``
================  ================================================================================
"""
