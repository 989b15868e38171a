"""Charts that draw without a network, by altair, which is imported when the first chart is made."""

from __future__ import annotations

from cepbook.widgets.charts.builders import comparison_chart, labels, line, stream_chart
from cepbook.widgets.charts.offline_renderer import (
    MIME,
    describe,
    enable_offline_renderer,
    offline_altair,
    render,
    show_as_chart,
)

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
