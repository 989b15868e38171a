"""What a data window contributes to generated code: how its view is made, and maybe a fragment for arrivals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.windows.duration import duration, positive
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import WindowSpec


@dataclass(frozen=True, slots=True)
class EmittedChange:
    """What an arrival posts, as far as it is known when code is written.

    `alone`: the arriving event enters and nothing else does; else the local ``change`` holds the items that entered
    and those that left, or None. `left` is the head of a block (``if …:`` for at most one item, or ``while …:``)
    and the code of the item that leaves in it.
    """

    alone: bool = True
    left: tuple[str, str] | None = None


ARRIVAL_ONLY = EmittedChange()
DELTA_IN_LOCAL = EmittedChange(alone=False)


class WindowArrival(Protocol):
    """An arrival at a window, for the fragment that writes it (`rows.pipeline.Arrival`)."""

    @property
    def code(self) -> CodegenContext: ...
    @property
    def source(self) -> SourceWriter: ...
    @property
    def spec(self) -> WindowSpec: ...
    @property
    def view(self) -> str: ...
    @property
    def item(self) -> str: ...
    @property
    def operands(self) -> list[str]: ...
    @property
    def unseen(self) -> bool: ...
    @property
    def at_hand(self) -> bool: ...
    def queue(self) -> None: ...
    def parameter(self, attribute: str, e: x.BoundExpr) -> str: ...
    def swept(self, head: str, item: str, then: str = "") -> None: ...
    def armed(self) -> None: ...


# writes an arrival and tells what it posts; None: nothing ever
ArrivalFragment = Callable[[WindowArrival], EmittedChange | None]


@dataclass(frozen=True, slots=True)
class WindowCodegen:
    """`make(code, spec, at)` is code of a new view; the operands of `spec` stand in items from position `at` on.

    `operands(code, spec)` is code of the operands of the arriving event. The code that makes a view reads ``now``, the
    time at which the window starts. With a `fragment` arrivals are written into the statement's own code, on the view's
    fields; without one they call ``arrive``. `along` makes the view of a batch of which only aggregates show
    (`rows.windows.along`). `reads_now`: the fragment reads the local ``now``. `ahead` writes, before the loop over a
    slice and after whatever else moved the view, what the fragment then has at hand (`Arriving.at_hand`).
    """

    make: Callable[[CodegenContext, WindowSpec, int], str]
    operands: Callable[[CodegenContext, WindowSpec], list[str]] = lambda code, spec: []
    fragment: ArrivalFragment | None = None
    along: Callable[[CodegenContext, WindowSpec, int], str] | None = None
    reads_now: bool = False
    ahead: Callable[[WindowArrival], None] | None = None


def queue(arrival: WindowArrival) -> None:
    """`Window.ahead` of most queues."""
    arrival.source.line(f"queue = {arrival.view}.items")


def size(code: CodegenContext, spec: WindowSpec, position: int = 0) -> str:
    """Code of a window parameter, a number of events above 0."""
    given = code.parameter(spec.args[position])
    if isinstance(spec.args[position], x.Const):
        return given
    return f"{code.source.bind('_positive', positive)}({given})"


def period(code: CodegenContext, spec: WindowSpec, position: int = 0, *, apart: bool = False) -> str:
    """Code of a window parameter, a time period; with `apart` it is between batches, and cannot be zero."""
    given = spec.args[position]
    months, length = "0", "0"
    if isinstance(given, x.Period):
        months = "0" if given.months is None else code.parameter(given.months)
        length = "0" if given.millis is None else code.parameter(given.millis)
    else:
        length = code.parameter(given)
    code.source.bind("_duration", duration)
    return f"_duration({months}, {length}, {code.base.calendar}{', apart=True' if apart else ''})"


def fixed(spec: WindowSpec, position: int = 0) -> x.BoundExpr | None:
    """The length of a window's period, where it is one number of clock units; None if it has calendar months."""
    given = spec.args[position]
    if not isinstance(given, x.Period):
        return given
    return given.millis if given.months is None else None


def key(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """The one operand of windows by key: the key expressions of the arriving event."""
    return [code.window_key(code.arriving("now"), spec.args)]


def timestamp(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """The one operand of windows over a timestamp: the first parameter. Null is an error of the event."""
    value = lower.value(code.arriving("now"), spec.args[0])
    checked = f"{code.source.bind('_not_null', not_null)}({value}, {code.source.const(spec.name)})"
    return [f"({value} if {value} is not None else {checked})" if value.isidentifier() else checked]


def not_null(stamp: int | None, window: str) -> int:
    """`stamp`. Errors: ValueError when it is null."""
    if stamp is None:
        raise ValueError(f"the timestamp of `{window}` is null")
    return stamp
