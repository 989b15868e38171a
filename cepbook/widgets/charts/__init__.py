"""Charts that draw without a network, by altair, which is imported when the first chart is made."""

from __future__ import annotations

from collections.abc import Sequence

from cepbook.charts.builders import comparison_chart, labels, line
from cepbook.charts.offline_renderer import (
    MIME,
    describe,
    enable_offline_renderer,
    offline_altair,
    render,
    show_as_chart,
)
from cepbook.lazy_imports import Chart
from cepbook.session import Workbench
from cepbook.session.inspect.stream_chart import build_stream_chart

__all__ = [
    "MIME",
    "comparison_chart",
    "describe",
    "enable_offline_renderer",
    "labels",
    "line",
    "offline_altair",
    "render",
    "show_as_chart",
    "stream_chart",
]


def stream_chart(
    workbench: Workbench, name: str, *, y: str | Sequence[str] | None = None, x: str = "time", color: str | None = None
) -> Chart:
    """Return a chart of the insert stream of statement `name` over time, up to the past instant that is displayed.

    `y` defaults to the first column with floats, else the first numeric one; `color` to the first text column with at
    most 20 values. Raises UsageError if there is no numeric column to draw.
    """
    changes = workbench.feed(name).whole(workbench.glance.time)
    return build_stream_chart(workbench.runtime, changes, name, y, x, color)
