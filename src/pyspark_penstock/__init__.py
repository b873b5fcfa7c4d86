"""The entry point for Spark, which imports every module named ``pyspark_*`` to find data sources.

Keep the import light: Spark repeats it in its own process for each use of a format.
"""

from penstock.spark.source import DefaultSource

__all__ = ["DefaultSource"]
