"""The data source ``penstock``.

Spark imports this module for every use of the format, so readers and writers are imported on
demand. There is no filter push-down: Spark 4.3 fails on Python sources that implement it.
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
    source_options,
)
from penstock.spark.options_text import option_error
from penstock.spark.schema import COLUMNS, struct_of
from penstock.spark.tracebacks import hide_traceback

if TYPE_CHECKING:
    import pyarrow as pa


class DefaultSource(DataSource):
    """Reads topics as tables and writes tables to topics."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    @hide_traceback
    def schema(self) -> StructType:
        return struct_of(source_options(self.options).columns)

    @hide_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        from penstock.spark.batch import BatchReader  # noqa: PLC0415 - see the module

        options, columns = _reader_arguments(self.options, schema)
        check_batch(self.options, options)
        return BatchReader(options, columns)

    @hide_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        from penstock.spark.stream import StreamReader  # noqa: PLC0415 - see the module

        check_stream(self.options)
        return StreamReader(*_reader_arguments(self.options, schema))

    @hide_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import batch_writer  # noqa: PLC0415 - see the module

        return batch_writer(self.options, schema, overwrite)

    @hide_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's
        from penstock.spark.sink import stream_writer  # noqa: PLC0415 - see the module

        return stream_writer(self.options, schema, overwrite)


def _reader_arguments(
    given: Mapping[str, str], schema: StructType
) -> "tuple[SourceOptions, pa.Schema]":
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - see the module

    options = source_options(given)
    for field in schema.fields:
        column = COLUMNS.get(field.name)
        if column is None or column.type != field.dataType:
            raise option_error(
                "schema",
                f"no column {field.name} of type {field.dataType.simpleString()}",
                "omit the schema; select columns with the option columns",
            )
    options = msgspec.structs.replace(options, columns=tuple(schema.names))
    return options, to_arrow_schema(schema, timezone="UTC")
