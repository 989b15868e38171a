"""What a select plan looks like to the code generator: the chain of nodes laid flat, with facts derived from it."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.aggregate import Leaving
from cepbook.errors import Refusal
from cepbook.lang import plan as p
from cepbook.lang.expr import Expr
from cepbook.lang.windows import WINDOWS

_LEAVING = {
    "none": Leaving.NEVER,
    "keepall": Leaving.NEVER,
    "length": Leaving.IN_ORDER,
    "lastevent": Leaving.IN_ORDER,
    "time": Leaving.IN_ORDER,
    "unique": Leaving.ANYHOW,
    "length_batch": Leaving.NEVER,
    "time_batch": Leaving.NEVER,
}
BATCHES = frozenset({"length_batch", "time_batch"})
TIMED = frozenset(row.name for row in WINDOWS.values() if row.timed)


@dataclass(slots=True)
class Shape:
    """One single-stream select statement.

    `window` is the innermost data window (None: unbound), `group_window` the keys of ``groupwin``. `kept` names the
    properties that a retained event must hold: all that select, where, group by, having and order by read.
    """

    plan: p.SelectStatement
    source: p.Source
    window: p.WindowSpec | None
    group_window: tuple[Expr, ...]
    where: Expr | None
    aggregation: p.Aggregation | None
    having: Expr | None
    projection: p.Projection
    properties: tuple[str, ...]
    kept: tuple[str, ...] = ()
    keeps_event: bool = False
    needs_ordinal: bool = False

    @property
    def kind(self) -> p.QueryKind:
        return self.plan.kind

    @property
    def window_name(self) -> str:
        return "none" if self.window is None else self.window.name

    @property
    def batches(self) -> bool:
        return self.window_name in BATCHES

    @property
    def keys(self) -> tuple[Expr, ...]:
        return () if self.aggregation is None else self.aggregation.keys

    @property
    def grouped(self) -> bool:
        return bool(self.keys)

    @property
    def wants_insert(self) -> bool:
        return self.plan.selector != "rstream"

    @property
    def wants_remove(self) -> bool:
        return self.plan.selector != "istream"

    @property
    def fully(self) -> bool:
        """Whether rows stand for groups, not for events."""
        return self.kind in ("fully_aggregated", "fully_aggregated_grouped")

    @property
    def expiry_shows(self) -> bool:
        """Whether an event that leaves by time alone makes a row; if not, it is dropped at the next look."""
        return self.window_name in TIMED and (self.batches or self.wants_remove or self.fully)

    @property
    def lazy(self) -> bool:
        """A time window nobody sees expiring: swept on arrival, on inspection and once per period."""
        return self.window_name == "time" and not self.expiry_shows

    @property
    def leaving(self) -> Leaving:
        """How events leave one group of the aggregation."""
        within = _LEAVING[self.window_name]
        if self.batches and self.group_window:
            within = Leaving.IN_ORDER
        if within is Leaving.IN_ORDER and self.group_window and not set(self.group_window) <= set(self.keys):
            return Leaving.ANYHOW
        return within

    @property
    def runs_along(self) -> bool:
        """Whether a batch needs no events, only aggregates."""
        return self.batches and self.fully and not self.group_window

    @property
    def same_group(self) -> bool:
        """Whether an event that an arrival pushes out belongs to the arrival's own group."""
        return bool(self.group_window) and self.grouped and set(self.keys) <= set(self.group_window)


def shape_of(plan: p.SelectStatement) -> Shape:
    """Lay the chain of `plan` flat.

    Errors: Refusal for a combination of windows that the row engine does not know.
    """
    if plan.output is not None:
        raise Refusal("output", "output rate limiting")
    node: p.RowNode = plan.root.input
    having = where = None
    aggregation: p.Aggregation | None = None
    windows: tuple[p.WindowSpec, ...] = ()
    if isinstance(node, p.Having):
        having, node = node.predicate, node.input
    if isinstance(node, p.Aggregation):
        aggregation, node = node, node.input
    if isinstance(node, p.Selection):
        where, node = node.predicate, node.input
    if isinstance(node, p.Windowed):
        windows, node = node.windows, node.input
    if not isinstance(node, p.Source):
        raise Refusal("unknown-plan", f"a select over {type(node).__name__} has no code in the row engine")
    group_window, window = _windows(windows)
    shape = Shape(plan, node, window, group_window, where, aggregation, having, plan.root, ())
    _fill_in(shape)
    return shape


def _windows(windows: tuple[p.WindowSpec, ...]) -> tuple[tuple[Expr, ...], p.WindowSpec | None]:
    keys: tuple[Expr, ...] = ()
    if windows and windows[0].name == "groupwin":
        keys, windows = windows[0].args, windows[1:]
    if len(windows) > 1 or any(w.name not in _LEAVING for w in windows):
        raise Refusal("window-combination", "the row engine runs one data window, alone or behind groupwin")
    if not windows:
        if keys:
            raise Refusal("window-combination", "groupwin needs a data window behind it")
        return (), None
    return keys, windows[0]


def _fill_in(shape: Shape) -> None:
    after = _after_window(shape)
    window_keys = shape.window.args if shape.window is not None else ()
    shape.kept = tuple(lower.properties(*after))
    shape.keeps_event = shape.projection.wildcard or lower.reads_event(*after)
    everything = (shape.source.filter, *after, *shape.group_window, *window_keys)
    shape.properties = tuple(lower.properties(*everything))


def _after_window(shape: Shape) -> list[Expr | None]:
    found: list[Expr | None] = [shape.where, shape.having, *shape.keys]
    if shape.aggregation is not None:
        for call in shape.aggregation.calls:
            found += [*call.args, call.filter]
    found += [column.value for column in shape.projection.columns]
    found += [e for e, _ in shape.projection.order_by]
    return found
