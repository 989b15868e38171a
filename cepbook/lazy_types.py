"""Types of pandas, pyarrow, altair and pyspark for annotations.

Importing this module loads none of these packages: the playground, planning for Spark and its workers do without them.
Annotations are never evaluated, so the names need no value while the program runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import Chart, LayerChart, VConcatChart
    from pandas import DataFrame as PandasFrame
    from pandas import Series as PandasSeries
    from pyarrow import ChunkedArray as ArrowColumn
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
else:
    PandasFrame = PandasSeries = ArrowColumn = ArrowTable = Any
    Chart = LayerChart = VConcatChart = DataFrame = SparkSession = StructType = Any

__all__ = [
    "ArrowColumn",
    "ArrowTable",
    "Chart",
    "DataFrame",
    "LayerChart",
    "PandasFrame",
    "PandasSeries",
    "SparkSession",
    "StructType",
    "VConcatChart",
]
