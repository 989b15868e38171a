"""What a select plan looks like to the code generator: the chain of nodes laid flat, with facts derived from it."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.aggregate import CHANGING, Leaving
from cepbook.errors import Refusal
from cepbook.lang import expr as x
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
# on the general path, where the former batch leaves one by one
_LEAVING_VIEWS = {
    **dict.fromkeys(("keepall", "firstlength", "firsttime", "firstevent", "firstunique"), Leaving.NEVER),
    **dict.fromkeys(("length", "lastevent", "time", "ext_timed", "time_accum", "expr"), Leaving.IN_ORDER),
    **dict.fromkeys(("length_batch", "time_batch", "ext_timed_batch", "time_length_batch"), Leaving.IN_ORDER),
    "expr_batch": Leaving.IN_ORDER,
    **dict.fromkeys(("unique", "sort", "rank", "time_order", "timetolive"), Leaving.ANYHOW),
}
# how many operands of the arriving event a window compares
_OPERANDS = {
    **dict.fromkeys(("groupwin", "unique", "firstunique", "sort"), 1),
    **dict.fromkeys(("ext_timed", "ext_timed_batch", "time_order", "timetolive"), 1),
    "rank": 2,
}
_CONDITIONS = ("expr", "expr_batch")
_KEEPING_TIME = ("time", "time_accum")
_GROUPING = ("groupwin", "merge")
BATCHES = frozenset({"length_batch", "time_batch"})
TIMED = frozenset(row.name for row in WINDOWS.values() if row.timed)
_RELEASING = frozenset(row.name for row in WINDOWS.values() if row.batch)


@dataclass(frozen=True, slots=True)
class Stage:
    """Views over events of one type: those of the source, or the derived ones.

    `properties` are read of events that arrive, `kept` of items later; `operands` counts what windows compare.
    `keeps_time`: windows read when an item arrived.
    """

    windows: tuple[p.WindowSpec, ...]
    union: bool
    properties: tuple[str, ...]
    kept: tuple[str, ...]
    keeps_event: bool
    keeps_time: bool
    operands: int


@dataclass(slots=True)
class Shape:
    """One single-stream select statement.

    `window` is the innermost data window (None: unbound), `group_window` the keys of ``groupwin``. `kept` names the
    properties that a retained event must hold: all that select, where, group by, having and order by read.

    A statement that is more than one plain window over a stream has `stages`, and goes the general path: `window` and
    `group_window` are empty. Its rows are made from items of the last stage. `priors` are its calls of ``prior``.
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
    stages: tuple[Stage, ...] = ()
    priors: tuple[x.Prior, ...] = ()

    @property
    def general(self) -> bool:
        """Whether the statement runs over views (`rows.general`)."""
        return bool(self.stages)

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
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The grouping sets of rollup and the like, as indexes of `keys`."""
        return () if self.aggregation is None else self.aggregation.levels

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
        """Whether it can be seen that an event leaves by time alone; if not, it is dropped at the next look."""
        if self.window_name not in TIMED:
            return False
        lasts = self.window is not None and above_zero(self.window.args[0])  # of no time at all, it shows at once
        return self.batches or self.wants_remove or self.fully or not lasts

    @property
    def lazy(self) -> bool:
        """A time window nobody sees expiring: swept on arrival, on inspection and once per period."""
        return self.window_name == "time" and not self.expiry_shows

    @property
    def leaving(self) -> Leaving:
        """How events leave one group of the aggregation."""
        within = self._leaving_views() if self.general else self._leaving_window()
        return Leaving.ANYHOW if within is Leaving.IN_ORDER and self.changing else within

    def _leaving_window(self) -> Leaving:
        within = _LEAVING[self.window_name]
        if self.batches and self.group_window:
            within = Leaving.IN_ORDER
        if within is Leaving.IN_ORDER and self.group_window and not set(self.group_window) <= set(self.keys):
            return Leaving.ANYHOW
        return within

    def _leaving_views(self) -> Leaving:
        windows = [w for stage in self.stages for w in stage.windows]
        holding = [w.name for w in windows if w.name not in _GROUPING]
        if len(self.stages) > 1 or len(holding) > 1 or any(w.name == "merge" for w in windows):
            return Leaving.ANYHOW
        within = _LEAVING_VIEWS[holding[0]] if holding else Leaving.NEVER
        groups = next((set(w.args) for w in windows if w.name == "groupwin"), set())
        keys = set(self.keys) if not self.levels else set[Expr]()
        if within is Leaving.IN_ORDER and groups and not groups <= keys:
            return Leaving.ANYHOW
        return within

    @property
    def leaving_locally(self) -> Leaving:
        """How events leave a local group, whatever its keys."""
        windows = [w.name for stage in self.stages for w in stage.windows]
        return Leaving.ANYHOW if self.leaving is Leaving.IN_ORDER and "groupwin" in windows else self.leaving

    @property
    def unpaired(self) -> bool:
        """Whether events may leave that never entered: the first former value of a derived-value window."""
        return self.changing or (len(self.stages) > 1 and not self.stages[-1].windows)

    @property
    def former_rows_may_fail(self) -> bool:
        """Whether making the row of before a change may fail, while the cells must still move."""
        projection = self.projection
        shown = [*(c.value for c in projection.columns), *(e for e, _ in projection.order_by), self.having]
        return self.wants_remove and lower.may_fail(*shown)

    @property
    def changing(self) -> bool:
        """Whether an event may belong to other groups, or not pass where, by the time it leaves: nothing keeps that.

        An event that leaves a group, or all events, without having entered is ignored; one that does not leave stays.
        """
        calls = () if self.aggregation is None else self.aggregation.calls
        parts = [self.where, *self.keys, *(e for call in calls for e in call.group_by or ())]
        return any(isinstance(part, CHANGING) for e in parts if e is not None for part in x.walk(e))

    @property
    def watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of a window."""
        conditions = [w.args[0] for stage in self.stages for w in stage.windows if w.name in _CONDITIONS]
        return tuple(dict.fromkeys(e.name for c in conditions for e in x.walk(c) if isinstance(e, x.Variable)))

    @property
    def output_watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of the output clause."""
        output = self.plan.output
        parts = [] if output is None or output.when is None else x.walk(output.when)
        return tuple(dict.fromkeys(e.name for e in parts if isinstance(e, x.Variable)))

    @property
    def delivers(self) -> p.Selector:
        """Which rows are delivered: a snapshot has insert rows only, whatever the stream selector is."""
        output = self.plan.output
        return "istream" if output is not None and output.which == "snapshot" else self.plan.selector

    @property
    def timed(self) -> bool:
        """Whether the clock may change what the statement's windows hold or release, or when it delivers."""
        output = self.plan.output
        output_timed = output is not None and output.kind in ("time", "at", "when")
        return output_timed or any(name in TIMED for name in self.window_names)

    @property
    def window_names(self) -> tuple[str, ...]:
        """All data windows, without ``groupwin`` and ``merge``."""
        if not self.general:
            return () if self.window is None else (self.window.name,)
        return tuple(w.name for stage in self.stages for w in stage.windows if w.name not in _GROUPING)

    @property
    def enters_alone(self) -> bool:
        """Whether an arrival that changes anything makes just the arriving event enter."""
        merged = any(w.name == "merge" for stage in self.stages for w in stage.windows)
        return len(self.stages) == 1 and not merged and not self.posts_nothing

    @property
    def posts_nothing(self) -> bool:
        """Whether an arrival may make a window post a change of nothing, which is delivered: an empty batch."""
        return any(name in _RELEASING for name in self.window_names)

    @property
    def runs_along(self) -> bool:
        """Whether a batch needs no events, only aggregates."""
        return self.batches and self.fully and not self.group_window

    @property
    def same_group(self) -> bool:
        """Whether an event that an arrival pushes out belongs to the arrival's own group."""
        within = bool(self.group_window) and self.grouped and set(self.keys) <= set(self.group_window)
        return within and not self.changing


def shape_of(plan: p.SelectStatement) -> Shape:
    """Lay the chain of `plan` flat.

    Errors: Refusal for what the row engine does not know.
    """
    node: p.RowNode = plan.root.input
    having = where = None
    aggregation: p.Aggregation | None = None
    if isinstance(node, p.Having):
        having, node = node.predicate, node.input
    if isinstance(node, p.Aggregation):
        aggregation, node = node, node.input
    if isinstance(node, p.Selection):
        where, node = node.predicate, node.input
    streams: list[p.Windowed | p.Derived] = []
    while not isinstance(node, p.Source):
        if not isinstance(node, (p.Windowed, p.Derived)):
            raise Refusal("unknown-plan", f"a select over {type(node).__name__} has no code in the row engine")
        streams.append(node)
        node = node.input
    shape = Shape(plan, node, None, (), where, aggregation, having, plan.root, ())
    if _is_plain(shape, streams):
        windows = streams[0].windows if streams and isinstance(streams[0], p.Windowed) else ()
        if windows and windows[0].name == "groupwin":
            shape.group_window, windows = windows[0].args, windows[1:]
        shape.window = windows[0] if windows else None
        _fill_in(shape)
    else:
        _fill_in_stages(shape, streams)
    return shape


def _is_plain(shape: Shape, streams: list[p.Windowed | p.Derived]) -> bool:
    """Whether the statement is one whose window is written into its own code."""
    parts = (part for e in _after_window(shape) if e is not None for part in x.walk(e))
    if shape.plan.output is not None or shape.levels or any(isinstance(part, _OF_ROWS) for part in parts):
        return False
    calls = () if shape.aggregation is None else shape.aggregation.calls
    if shape.aggregation is not None and (lower.may_fail(shape.where) or shape.former_rows_may_fail):
        return False  # what has moved already by then is not for the code of plain windows
    if any(call.group_by is not None or lower.may_fail(*call.args, call.filter) for call in calls):
        return False
    if not streams:
        return True
    if len(streams) > 1 or not isinstance(streams[0], p.Windowed):
        return False
    first, *rest = streams[0].windows
    emptied = shape.grouped or any(w.name in BATCHES for w in streams[0].windows)
    if emptied and any(map(_remembers, calls)):
        return False  # what stays of events that left is not for the code of plain batches and emptied groups
    if first.name == "groupwin":
        return first.reclaim is None and len(rest) == 1 and rest[0].name in _LEAVING
    return not rest and first.name in _LEAVING


def _remembers(call: p.AggregateCall) -> bool:
    """Whether the value depends on events that are not in the window any more."""
    return call.ever or call.name in ("leaving", "rate")


_OF_ROWS = (x.Prev, x.Prior, x.InsertStream)


def _fill_in(shape: Shape) -> None:
    after = _after_window(shape)
    window_keys = shape.window.args if shape.window is not None else ()
    shape.kept = tuple(lower.properties(*after))
    shape.keeps_event = shape.projection.wildcard or lower.reads_event(*after)
    everything = (shape.source.filter, *after, *shape.group_window, *window_keys)
    shape.properties = tuple(lower.properties(*everything))


def _fill_in_stages(shape: Shape, streams: list[p.Windowed | p.Derived]) -> None:
    after = _after_window(shape)
    found = [part for e in after if e is not None for part in x.walk(e) if isinstance(part, x.Prior)]
    shape.priors = tuple(dict.fromkeys(found))
    derived = next((node for node in streams if isinstance(node, p.Derived)), None)
    windowed = [node for node in streams if isinstance(node, p.Windowed)]
    wildcard = shape.projection.wildcard
    if derived is None:
        below = windowed[0] if windowed else None
        shape.stages = (_stage(below, [shape.source.filter], after, wildcard, 0),)
    else:
        below = windowed[-1] if windowed and windowed[-1] is derived.input else None
        above = windowed[0] if streams[0] is not derived and windowed else None
        derives = [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
        width = len(derives)
        shape.stages = (
            _stage(below, [shape.source.filter, *derives], [], False, width),
            _stage(above, [], after, wildcard, 0),
        )
    first = shape.stages[0]
    shape.properties = first.properties
    shape.kept = first.kept
    shape.keeps_event = first.keeps_event


def _stage(
    node: p.Windowed | None, arriving: list[Expr | None], after: list[Expr | None], wildcard: bool, more: int
) -> Stage:
    windows = () if node is None else node.windows
    later = list(after)
    for window in windows:
        arriving = [*arriving, *window.args, *(e for e, _ in window.criteria)]
        if window.name in _CONDITIONS:
            later += [*window.args, *_of_calls(window.calls)]
    parts = [part for e in later if e is not None for part in x.walk(e) if isinstance(part, x.WindowValue)]
    known_only_here = any(part.name.endswith("_event") for part in parts)
    timestamps = any(part.name.endswith("_timestamp") for part in parts)
    return Stage(
        windows,
        node is not None and node.union,
        tuple(lower.properties(*arriving, *later)),
        tuple(lower.properties(*later)),
        wildcard or known_only_here or lower.reads_event(*later),
        timestamps or any(w.name in _KEEPING_TIME for w in windows),
        sum(_OPERANDS.get(w.name, 0) for w in windows) + more,
    )


def _after_window(shape: Shape) -> list[Expr | None]:
    found: list[Expr | None] = [shape.where, shape.having, *shape.keys]
    if shape.aggregation is not None:
        found += _of_calls(shape.aggregation.calls)
    found += [column.value for column in shape.projection.columns]
    found += [e for e, _ in shape.projection.order_by]
    return found


def _of_calls(calls: tuple[p.AggregateCall, ...]) -> list[Expr | None]:
    """What aggregate calls evaluate for each event."""
    found: list[Expr | None] = []
    for call in calls:
        found += [*call.args, call.filter, *(call.group_by or ()), *(e for e, _ in call.criteria)]
    return found


def above_zero(period: Expr) -> bool:
    """Whether a period is a constant above 0."""
    parts: list[Expr] = [period]
    if isinstance(period, x.Period):
        parts = [e for e in (period.months, period.millis) if e is not None]
    values = [e.value for e in parts if isinstance(e, x.Const)]
    return len(values) == len(parts) and any(isinstance(v, (int, float)) and v > 0 for v in values)
