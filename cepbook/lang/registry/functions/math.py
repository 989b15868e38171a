"""``Math.abs(x)`` and its siblings: the static methods of java.lang.Math, with Java's results for odd arguments.

Beside them points and rectangles of a plane: ``point(x, y).inside(rectangle(x, y, width, height))``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from cepbook.lang import types as t
from cepbook.lang.registry.functions.function_row import FunctionRow, ParameterKind, always, promoted, wide_int


def _nan_on_error(fn: Callable[..., float], overflow: float = math.inf) -> Callable[..., float]:
    def guarded(*args: float) -> float:
        try:
            return fn(*args)
        except ValueError:
            return math.nan
        except OverflowError:
            return overflow

    return guarded


def _log(fn: Callable[[float], float]) -> Callable[[float], float]:
    def guarded(x: float) -> float:
        if x == 0:
            return -math.inf
        return math.nan if x < 0 else fn(x)

    return guarded


def _round(x: float | Decimal) -> int:
    """Java's Math.round: half up, NaN to 0, saturating at the ends of long."""
    if isinstance(x, float) and not math.isfinite(x):
        return 0 if math.isnan(x) else ((1 << 63) - 1 if x > 0 else -(1 << 63))
    rounded = math.floor(x)
    if x - rounded >= Decimal("0.5") if isinstance(x, Decimal) else x - rounded >= 0.5:
        rounded += 1
    return max(-(1 << 63), min((1 << 63) - 1, rounded))


def _rounded(fn: Callable[[float], int]) -> Callable[[float], float]:
    """The whole number that `fn` chooses, with the sign of the argument also if it is zero."""
    return lambda x: math.copysign(fn(x), x) if math.isfinite(x) else x


def _power(x: float, y: float) -> float:
    """Java's Math.pow. Unlike C's pow: NaN for (±1, ±Infinity) and (1, NaN). Overflow gives a signed infinity."""
    if math.isnan(y) or (abs(x) == 1 and math.isinf(y)):
        return math.nan
    odd = math.isfinite(y) and y % 2 == 1
    infinite = -math.inf if odd and math.copysign(1.0, x) < 0 else math.inf
    if x == 0 and y < 0:
        return infinite
    return _nan_on_error(math.pow, infinite)(x, y)


def _sinh(x: float) -> float:
    return _nan_on_error(math.sinh, math.copysign(math.inf, x))(x)


def _signum(x: float) -> float:
    return x if x != x or x == 0 else math.copysign(1.0, x)


def _double(name: str, doc: str, example: str, py: str | Callable[..., object], arity: int = 1) -> FunctionRow:
    parameters: tuple[ParameterKind, ...] = ("number",) if arity == 1 else ("number", "number")
    return FunctionRow(f"Math.{name}", parameters, always(t.DOUBLE), doc, example, py)


MATH = (
    FunctionRow("Math.abs", ("number",), wide_int, "absolute value", "Math.abs(price)", "abs({0})"),
    FunctionRow(
        "Math.max", ("number", "number"), promoted, "larger of two", "Math.max(price, 1)", "max({0}, {1})", picks=True
    ),
    FunctionRow(
        "Math.min", ("number", "number"), promoted, "smaller of two", "Math.min(price, 1)", "min({0}, {1})", picks=True
    ),
    FunctionRow("Math.round", ("number",), always(t.LONG), "nearest long, half up", "Math.round(price)", _round),
    _double("floor", "largest whole number not above", "Math.floor(price)", _rounded(math.floor)),
    _double("ceil", "smallest whole number not below", "Math.ceil(price)", _rounded(math.ceil)),
    _double("rint", "nearest whole number, half to even", "Math.rint(price)", _rounded(round)),
    _double("sqrt", "square root; NaN below 0", "Math.sqrt(price)", _nan_on_error(math.sqrt)),
    _double("cbrt", "cube root", "Math.cbrt(price)", math.cbrt),
    _double("pow", "power", "Math.pow(price, 2)", _power, 2),
    _double("exp", "e to the power of x", "Math.exp(price)", _nan_on_error(math.exp)),
    _double("log", "natural logarithm; -Infinity at 0", "Math.log(price)", _log(math.log)),
    _double("log10", "logarithm to base 10", "Math.log10(price)", _log(math.log10)),
    _double("signum", "-1.0, 0.0 or 1.0", "Math.signum(price)", lambda x: _signum(float(x))),
    _double("hypot", "sqrt(x² + y²)", "Math.hypot(price, volume)", math.hypot, 2),
    _double("sin", "sine of radians", "Math.sin(price)", _nan_on_error(math.sin)),
    _double("cos", "cosine of radians", "Math.cos(price)", _nan_on_error(math.cos)),
    _double("tan", "tangent of radians", "Math.tan(price)", _nan_on_error(math.tan)),
    _double("asin", "arc sine", "Math.asin(0.5)", _nan_on_error(math.asin)),
    _double("acos", "arc cosine", "Math.acos(0.5)", _nan_on_error(math.acos)),
    _double("atan", "arc tangent", "Math.atan(price)", math.atan),
    _double("atan2", "angle of a point", "Math.atan2(price, volume)", math.atan2, 2),
    _double("sinh", "hyperbolic sine", "Math.sinh(price)", _sinh),
    _double("cosh", "hyperbolic cosine", "Math.cosh(price)", _nan_on_error(math.cosh)),
    _double("tanh", "hyperbolic tangent", "Math.tanh(price)", math.tanh),
    _double("toRadians", "degrees to radians", "Math.toRadians(price)", math.radians),
    _double("toDegrees", "radians to degrees", "Math.toDegrees(price)", math.degrees),
)


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
