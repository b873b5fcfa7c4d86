"""The data source ``penstock``: what Spark asks for, and who answers.

Spark imports this for every use of the format, in processes of its own; so the parts are imported
when they are asked for. Push-down of filters is left alone on purpose: Spark 4.3 has it off, fails
on sources that implement it, and returns wrong rows with it on. Ranges are options instead.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.spark.options import (
    SourceOptions,
    check_batch,
    check_stream,
    option_error,
    source_options,
)
from penstock.spark.schema import COLUMNS, struct_of
from penstock.spark.tracebacks import hide_traceback

if TYPE_CHECKING:
    import pyarrow as pa


class DefaultSource(DataSource):
    """Topics as tables, tables as topics."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "penstock"

    @hide_traceback
    def schema(self) -> StructType:
        """The columns that the options choose."""
        return struct_of(source_options(self.options).columns)

    @hide_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """Read topics as they are now."""
        from penstock.spark.batch import BatchReader  # noqa: PLC0415 - see the module

        options, columns = _told(self.options, schema)
        check_batch(self.options, options)
        return BatchReader(options, columns)

    @hide_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Read topics as they grow."""
        from penstock.spark.stream import StreamReader  # noqa: PLC0415 - see the module

        check_stream(self.options)
        return StreamReader(*_told(self.options, schema))

    @hide_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Publish a table."""
        from penstock.spark.sink import batch_writer  # noqa: PLC0415 - see the module

        return batch_writer(self.options, schema, overwrite)

    @hide_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        """Publish a table as it grows."""
        from penstock.spark.sink import stream_writer  # noqa: PLC0415 - see the module

        return stream_writer(self.options, schema, overwrite)


def _told(given: Mapping[str, str], schema: StructType) -> "tuple[SourceOptions, pa.Schema]":
    """Options and schema of a reader; a schema that the user gave is a choice of columns."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - see the module

    options = source_options(given)
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None or column.type != field.dataType:
            raise option_error(
                "schema",
                f"there is no column {field.name} of type {field.dataType.simpleString()}",
                "leave the schema out, or choose columns with the option columns",
            )
    options = msgspec.structs.replace(options, columns=tuple(schema.names))
    return options, to_arrow_schema(schema, timezone="UTC")
