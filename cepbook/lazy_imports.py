"""Names that load no package until they are needed: types of pandas, pyarrow, altair and pyspark, exports on demand.

Importing this module loads none of these packages: the playground, planning for Spark and its workers do without them.
Annotations are never evaluated, so the names need no value while the program runs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
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
    "exports_on_demand",
]


def exports_on_demand(
    package: str, modules: Mapping[str, str], names: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that exports `names`, some from `modules` on demand."""

    def get(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(sys.modules[package]), *names})
