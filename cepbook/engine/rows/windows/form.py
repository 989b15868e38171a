"""What a data window contributes to generated code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.duration import duration, positive
from cepbook.lang import expr as x
from cepbook.lang.plan import WindowSpec


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window that takes and drops events one by one.

    `fresh(code)` is code of an empty window. `arrive(code, w, item, drops)` writes code that puts `item` into window
    `w` and returns the local that then holds the one item that left (or GONE), None if nothing ever leaves by an
    arrival; with `drops` False nobody looks at what left. `contents(w)` is code of an iterable of the items, in order.
    """

    fresh: Callable[[Code], str]
    arrive: Callable[[Code, str, str, bool], str | None]
    contents: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Batch:
    """A window that collects events and releases them together.

    `grid(code)` is code of a point of its release grid that is known from the start (``None`` if none is).
    `arrive(code, w, count)` writes what an arrival does after it was collected in window state ``w`` (see `batches`);
    with `count`, the code of the number of collected events, it calls ``release`` when the batch is full.
    """

    grid: Callable[[Code], str]
    arrive: Callable[[Code, str, str], None]


@dataclass(frozen=True, slots=True)
class General:
    """`make(code, spec, at)` is code of a new view; the operands of `spec` stand in items from position `at` on.

    `operands(code, spec)` is code of the operands of the arriving event. The code that makes a view reads ``now``, the
    time at which the window starts.
    """

    make: Callable[[Code, WindowSpec, int], str]
    operands: Callable[[Code, WindowSpec], list[str]] = lambda code, spec: []


def size(code: Code, spec: WindowSpec, position: int = 0) -> str:
    """Code of a window parameter, a number of events above 0."""
    given = code.parameter(spec.args[position])
    if isinstance(spec.args[position], x.Const):
        return given
    return f"{code.source.bind('_positive', positive)}({given})"


def period(code: Code, spec: WindowSpec, position: int = 0, *, apart: bool = False) -> str:
    """Code of a window parameter, a time period; with `apart` it is between batches, and cannot be zero."""
    given = spec.args[position]
    months, length = "0", "0"
    if isinstance(given, x.Period):
        months = "0" if given.months is None else code.parameter(given.months)
        length = "0" if given.millis is None else code.parameter(given.millis)
    else:
        length = code.parameter(given)
    code.source.bind("_duration", duration)
    return f"_duration({months}, {length}{', True' if apart else ''})"


def key(code: Code, spec: WindowSpec) -> list[str]:
    """The one operand of windows by key: the key expressions of the arriving event."""
    return [code.window_key(code.arriving("now"), spec.args)]


def timestamp(code: Code, spec: WindowSpec) -> list[str]:
    """The one operand of windows over a timestamp: the first parameter. Null is an error of the event."""
    value = lower.value(code.arriving("now"), spec.args[0])
    checked = f"{code.source.bind('_not_null', not_null)}({value}, {code.source.const(spec.name)})"
    return [f"({value} if {value} is not None else {checked})" if value.isidentifier() else checked]


def not_null(stamp: int | None, window: str) -> int:
    """`stamp`. Errors: ValueError when it is null."""
    if stamp is None:
        raise ValueError(f"the timestamp of `{window}` is null")
    return stamp
