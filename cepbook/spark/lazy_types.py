"""Types of pyspark, pandas and pyarrow for annotations.

Importing this module loads none of these packages: planning, the workers and the first `import cepbook.spark` do
without them. Annotations are never evaluated, so the names need no value while the program runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyarrow import ChunkedArray as ArrowColumn
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
else:
    PandasFrame = ArrowColumn = ArrowTable = DataFrame = SparkSession = StructType = Any

__all__ = ["ArrowColumn", "ArrowTable", "DataFrame", "PandasFrame", "SparkSession", "StructType"]
