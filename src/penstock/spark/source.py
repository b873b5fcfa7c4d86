"""The data source ``penstock``: what Spark asks for, and who answers."""

from pyspark.sql.datasource import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Topics as tables, tables as topics."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "penstock"
