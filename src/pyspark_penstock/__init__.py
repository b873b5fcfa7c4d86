"""Where Spark looks for a data source: it imports every module whose name begins so.

Its import is light, for Spark does it in a process of its own for each use of a format.
"""

from penstock.spark.source import DefaultSource

__all__ = ["DefaultSource"]
