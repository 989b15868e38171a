"""Types of altair and pandas for annotations; importing this module loads neither.

altair takes a second to load, which few sessions need. Annotations are never evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from altair import Chart, LayerChart, VConcatChart
    from pandas import DataFrame as PandasFrame
    from pandas import Series as PandasSeries
else:
    Chart = LayerChart = VConcatChart = PandasFrame = PandasSeries = Any

__all__ = ["Chart", "LayerChart", "PandasFrame", "PandasSeries", "VConcatChart"]
