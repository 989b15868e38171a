"""Points and rectangles of a plane: ``point(x, y).inside(rectangle(x, y, width, height))``."""

from __future__ import annotations

from cepbook.lang import types as t
from cepbook.lang.registry.functions.function_row import FunctionRow, always


def _inside(px: float, py: float, x: float, y: float, width: float, height: float) -> bool:
    return x <= px < x + width and y <= py < y + height


def _intersects(
    x: float, y: float, width: float, height: float, left: float, top: float, other_width: float, other_height: float
) -> bool:
    return x <= left + other_width and left <= x + width and y <= top + other_height and top <= y + height


SPATIAL = (
    FunctionRow(
        "point.inside",
        ("number",) * 6,
        always(t.BOOLEAN),
        "whether a point lies in a rectangle: its left and upper edge count, its right and lower edge do not",
        "point(price, volume).inside(rectangle(0, 0, 100, 50))",
        _inside,
    ),
    FunctionRow(
        "rectangle.intersects",
        ("number",) * 8,
        always(t.BOOLEAN),
        "whether two rectangles share a point; edges that touch count",
        "rectangle(price, volume, 10, 10).intersects(rectangle(0, 0, 100, 50))",
        _intersects,
    ),
)
SHAPES = {"point": 2, "rectangle": 4}  # the numbers that each consists of
