"""The contribution of a data window to generated code: the code that creates its view, and optionally inlined arrivals.

Most windows only create a view, and the statement calls its ``arrive``. Frequent windows (``length``, ``time``,
``unique``, ``keepall``, batches) also have a *fragment*, which writes the arrival into the statement's own function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.windows.duration import duration, positive
from cepbook.engine.windows.window_view import WindowView
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import WindowSpec

# Writes a block, given its head, the code of the item that leaves in it, and a line that follows its unpacking.
EvictionWriter = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class EmittedChange:
    """The delta of an arrival, as far as it is known when code is written.

    `alone`: the arriving event enters and nothing else changes. Otherwise the local ``change`` holds the delta, or
    None. `left` is the head of a block (``if …:`` for at most one item, or ``while …:``) and the code of the item that
    leaves in it.
    """

    alone: bool = True
    left: tuple[str, str] | None = None


ARRIVAL_ONLY = EmittedChange()
DELTA_IN_LOCAL = EmittedChange(alone=False)


@dataclass(frozen=True, slots=True)
class WindowArrival:
    """An arrival at one window, for the fragment that writes it.

    `view` is code of the window's view, `item` of the event's item (empty if the batch keeps no events), `operands` of
    the window's operands. `evicts_unseen`: nothing reads the items that leave. `prefetched`: the code of the window's
    `prefetch` has run. `write_arming` writes the code that makes the clock advance the view when it is due.
    """

    code: CodegenContext
    spec: WindowSpec
    view: str
    item: str
    operands: Sequence[str]
    evicts_unseen: bool
    prefetched: bool
    write_eviction: EvictionWriter | None
    write_arming: Callable[[], None]

    @property
    def source(self) -> SourceWriter:
        """The source that the fragment writes to."""
        return self.code.source

    def queue(self) -> None:
        """Write the local ``queue``, the items of the view, unless it is prefetched."""
        if not self.prefetched:
            write_queue(self)

    def parameter(self, attribute: str, e: x.BoundExpr) -> str:
        """Return code of a window parameter: a constant, or the `attribute` of the view."""
        return lower.value(self.code.base, e) if e.constant is not None else f"{self.view}.{attribute}"

    def evict(self, head: str, then: str = "") -> None:
        """Write the block `head` in which the oldest item of the queue leaves, and `then`, before the arrival."""
        assert self.write_eviction is not None
        self.write_eviction(head, "queue.popleft()", then)


# Code of a new view, or of an argument of its class, given the position of the first operand in items.
ViewCode = Callable[[CodegenContext, WindowSpec, int], str]
# Writes an arrival and returns its delta; None if an arrival never emits.
ArrivalFragment = Callable[[WindowArrival], EmittedChange | None]


@dataclass(frozen=True, slots=True)
class WindowCodegen:
    """Code generation for one kind of window.

    ``make(code, spec, at)`` returns code of a new view; the operands of `spec` are at positions from `at` on in items.
    That code reads ``now``, the time at which the window starts. ``operands(code, spec)`` returns code of the operands
    of the arriving event. `aggregate_only` makes the view of a batch that only feeds aggregates
    (`aggregate_only_batch`). `reads_now`: the fragment reads the local ``now``. `prefetch` writes locals for the
    fragment, before the loop over a batch of events and after other changes of the view. `queued`: the fragment appends
    the item to the local ``queue``, which then contains the items of the window, oldest first. `kernel` says how
    arrays find what leaves the window: all but the ``newest``, what is older than a ``period``, or all but the
    ``latest`` of each key.
    """

    make: ViewCode
    operands: Callable[[CodegenContext, WindowSpec], list[str]] = lambda code, spec: []
    fragment: ArrivalFragment | None = None
    aggregate_only: ViewCode | None = None
    reads_now: bool = False
    prefetch: Callable[[WindowArrival], None] | None = None
    queued: bool = False
    kernel: Literal["", "newest", "period", "latest"] = ""


def write_queue(arrival: WindowArrival) -> None:
    """Write the local ``queue``; the `prefetch` of most windows with a queue."""
    arrival.source.line(f"queue = {arrival.view}.items")


def creates(view: type[WindowView], *arguments: ViewCode) -> ViewCode:
    """Return a `make` that constructs `view` with these arguments."""

    def make(code: CodegenContext, spec: WindowSpec, at: int) -> str:
        name = code.source.bind(f"_{view.__name__}", view)
        return f"{name}({', '.join(argument(code, spec, at) for argument in arguments)})"

    return make


def operands_at(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    """The position of the first operand in items, as an argument of a view."""
    return str(at)


def arrival_time(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    """The position of the arrival time in items, as an argument of a view."""
    return str(code.items.time)


def optional(position: int, default: str = "None") -> ViewCode:
    """A window parameter that may be missing, as an argument of a view."""
    return lambda code, spec, at: code.parameter(spec.args[position]) if len(spec.args) > position else default


def forces_empty(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    """Return whether the flow control of a batch delivers empty intervals, as an argument of a view."""
    return str(bool(spec.options))


def starts_eagerly(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    """The time at which the clock of a batch starts with START_EAGER, else None, as an argument of a view."""
    return "now" if "START_EAGER" in spec.options else "None"


def size(position: int = 0) -> ViewCode:
    """A window parameter that is a number of events above 0, as an argument of a view."""

    def argument(code: CodegenContext, spec: WindowSpec, at: int) -> str:
        number = code.parameter(spec.args[position])
        if spec.args[position].constant is not None:
            return number
        return f"{code.source.bind('_positive', positive)}({number})"

    return argument


def period(position: int = 0, *, nonzero: bool = False) -> ViewCode:
    """A window parameter that is a time period; with `nonzero`, as between batches, 0 is an error."""

    def argument(code: CodegenContext, spec: WindowSpec, at: int) -> str:
        months, length = ("0" if e is None else code.parameter(e) for e in spec.args[position].period_parts)
        code.source.bind("_duration", duration)
        return f"_duration({months}, {length}, {code.base.calendar}{', nonzero=True' if nonzero else ''})"

    return argument


def fixed_length(spec: WindowSpec, position: int = 0) -> x.BoundExpr | None:
    """Return the length of a window's period in clock units; None if it has calendar months."""
    months, length = spec.args[position].period_parts
    return length if months is None else None


def key(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """Return the one operand of windows by key: the key expressions of the arriving event."""
    return [code.window_key(code.arriving("now"), spec.args)]


def timestamp(code: CodegenContext, spec: WindowSpec) -> list[str]:
    """Return the one operand of windows over a timestamp: the first parameter. Null is an error of the event."""
    value = lower.value(code.arriving("now"), spec.args[0])
    checked = f"{code.source.bind('_not_null', not_null)}({value}, {code.source.const(spec.name)})"
    return [f"({value} if {value} is not None else {checked})" if value.isidentifier() else checked]


def not_null(stamp: int | None, window: str) -> int:
    """Return `stamp`. Errors: ValueError if it is null."""
    if stamp is None:
        raise ValueError(f"the timestamp of `{window}` is null")
    return stamp
