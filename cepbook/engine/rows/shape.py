"""What a select plan looks like to the code generator: the chain of nodes laid flat, with facts derived from it."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.aggregate import CHANGING, Leaving
from cepbook.errors import Refusal
from cepbook.lang import expr as x
from cepbook.lang import plan as p
from cepbook.lang.expr import Expr
from cepbook.lang.windows import WINDOWS, WindowRow


@dataclass(frozen=True, slots=True)
class Stage:
    """Views over events of one type: those of the source, or the derived ones.

    `properties` are read of events that arrive, `kept` of items later; `operands` counts what windows compare.
    `keeps_time`: windows read when an item arrived. `by_ordinal`: items are told apart by their number.
    """

    windows: tuple[p.WindowSpec, ...]
    union: bool
    properties: tuple[str, ...]
    kept: tuple[str, ...]
    keeps_event: bool
    keeps_time: bool
    by_ordinal: bool
    operands: int

    @property
    def holding(self) -> tuple[p.WindowSpec, ...]:
        """The windows that hold events, without ``groupwin`` and ``merge``."""
        return tuple(w for w in self.windows if WINDOWS[w.name].kind != "grouping")

    @property
    def group_keys(self) -> tuple[Expr, ...]:
        """The keys of ``groupwin``."""
        return next((w.args for w in self.windows if _is(w, "groupwin")), ())

    @property
    def merged(self) -> bool:
        """Whether ``merge`` joins the groups of ``groupwin`` again."""
        return any(_is(w, "merge") for w in self.windows)


@dataclass(slots=True)
class Shape:
    """One single-stream select statement: its stages, and what becomes of their changes.

    Rows are made from items of the last stage. `priors` are the calls of ``prior``.
    """

    plan: p.SelectStatement
    source: p.Source
    where: Expr | None
    aggregation: p.Aggregation | None
    having: Expr | None
    projection: p.Projection
    stages: tuple[Stage, ...] = ()
    priors: tuple[x.Prior, ...] = ()

    # -------------------------------------------------------------- of the plan
    @property
    def kind(self) -> p.QueryKind:
        return self.plan.kind

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that are read of events as they arrive."""
        return self.stages[0].properties

    @property
    def keeps_event(self) -> bool:
        """Whether whole events are retained or shown."""
        return self.stages[0].keeps_event

    @property
    def keys(self) -> tuple[Expr, ...]:
        return () if self.aggregation is None else self.aggregation.keys

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The grouping sets of rollup and the like, as indexes of `keys`."""
        return () if self.aggregation is None else self.aggregation.levels

    @property
    def calls(self) -> tuple[p.AggregateCall, ...]:
        """The aggregate calls."""
        return () if self.aggregation is None else self.aggregation.calls

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
    def delivers(self) -> p.Selector:
        """Which rows are delivered: a snapshot has insert rows only, whatever the stream selector is."""
        output = self.plan.output
        return "istream" if output is not None and output.which == "snapshot" else self.plan.selector

    # -------------------------------------------------------------- windows
    @property
    def window_names(self) -> tuple[str, ...]:
        """All data windows, without ``groupwin`` and ``merge``."""
        return tuple(w.name for stage in self.stages for w in stage.holding)

    @property
    def _rows(self) -> list[WindowRow]:
        return [WINDOWS[name] for name in self.window_names]

    @property
    def only(self) -> p.WindowSpec | None:
        """The one data window, where there is one and no more; it may stand under ``groupwin``."""
        holding = self.stages[0].holding
        alone = len(self.stages) == 1 and len(holding) == 1 and not self.stages[0].merged
        return holding[0] if alone else None

    @property
    def group_keys(self) -> tuple[Expr, ...]:
        """The keys of ``groupwin`` over the one data window."""
        return self.stages[0].group_keys if self.only is not None else ()

    @property
    def timed(self) -> bool:
        """Whether the clock may change what the statement's windows hold or release, or when it delivers."""
        output = self.plan.output
        output_timed = output is not None and output.kind in ("time", "at", "when")
        return output_timed or any(row.timed for row in self._rows)

    @property
    def enters_alone(self) -> bool:
        """Whether an arrival that changes anything makes just the arriving event enter."""
        return len(self.stages) == 1 and not self.stages[0].merged and not self.posts_nothing

    @property
    def posts_nothing(self) -> bool:
        """Whether a window may post a change of nothing, which is delivered: an empty batch."""
        return any(row.batch for row in self._rows)

    @property
    def posts_whole(self) -> bool:
        """Whether each change is a whole batch for the whole batch before it."""
        return self.only is not None and WINDOWS[self.only.name].batch and not self.group_keys

    @property
    def lazy(self) -> bool:
        """A time window nobody sees expiring: swept on arrival, on inspection and once per period."""
        only = self.only
        if only is None or not WINDOWS[only.name].sweeps or self.wants_remove or self.fully or not self._steady:
            return False
        groups = next((w for w in self.stages[0].windows if _is(w, "groupwin")), None)
        return above_zero(only.args[0]) and (groups is None or groups.reclaim is None)

    @property
    def _steady(self) -> bool:
        """Whether rows depend on nothing but events and aggregates of what the window holds, and nothing can fail."""
        if self.plan.output is not None or self.levels or self._reads(x.Prev, x.Prior, x.InsertStream):
            return False
        if self.aggregation is not None and (lower.may_fail(self.where) or self.former_rows_may_fail):
            return False
        if any(call.group_by is not None or lower.may_fail(*call.args, call.filter) for call in self.calls):
            return False
        emptied = self.grouped or self.posts_nothing
        return not (emptied and any(map(_remembers, self.calls)))

    def _reads(self, *kinds: type[Expr]) -> bool:
        """Whether rows, conditions or aggregates read an expression of one of `kinds`."""
        parts = (part for e in _after_window(self) if e is not None for part in x.walk(e))
        return any(isinstance(part, kinds) for part in parts)

    @property
    def placed(self) -> bool:
        """Whether the place of an event in the window is asked for."""
        return self._reads(x.Prev)

    @property
    def resets(self) -> bool:
        """Whether the aggregates of each batch are made anew: nothing of earlier ones shows."""
        return self.posts_whole and self._steady

    @property
    def runs_along(self) -> bool:
        """Whether a batch needs no events, only aggregates."""
        return self.resets and self.fully and self.only is not None and WINDOWS[self.only.name].counts

    @property
    def starts_with_group(self) -> bool:
        """Whether the clock of a batch that runs along can only start with a new group."""
        return self.runs_along and self.timed and self.where is None

    @property
    def ticks(self) -> bool:
        """Whether an advance of the clock may concern the windows or the output."""
        return self.timed or bool(self.watched)

    # -------------------------------------------------------------- aggregates
    @property
    def leaving(self) -> Leaving:
        """How events leave one group of the aggregation."""
        within = self._leaving()
        return Leaving.ANYHOW if within is Leaving.IN_ORDER and self.changing else within

    def _leaving(self) -> Leaving:
        if self.resets:
            return Leaving.NEVER
        holding = [w for stage in self.stages for w in stage.holding]
        if len(self.stages) > 1 or len(holding) > 1 or self.stages[0].merged:
            return Leaving.ANYHOW
        leaves = WINDOWS[holding[0].name].leaves if holding else "never"
        within = Leaving.NEVER if leaves is None else Leaving(leaves)
        groups = set(self.stages[0].group_keys)
        keys = set(self.keys) if not self.levels else set[Expr]()
        if within is Leaving.IN_ORDER and groups and not groups <= keys:
            return Leaving.ANYHOW
        return within

    @property
    def leaving_locally(self) -> Leaving:
        """How events leave a local group, whatever its keys."""
        grouped = any(stage.group_keys for stage in self.stages)
        return Leaving.ANYHOW if self.leaving is Leaving.IN_ORDER and grouped else self.leaving

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
        parts = [self.where, *self.keys, *(e for call in self.calls for e in call.group_by or ())]
        return any(isinstance(part, CHANGING) for e in parts if e is not None for part in x.walk(e))

    @property
    def same_group(self) -> bool:
        """Whether an event that an arrival pushes out belongs to the arrival's own group."""
        within = bool(self.group_keys) and self.grouped and set(self.keys) <= set(self.group_keys)
        return within and not self.changing

    # -------------------------------------------------------------- variables
    @property
    def watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of a window."""
        conditions = [w.args[0] for stage in self.stages for w in stage.windows if WINDOWS[w.name].conditional]
        return tuple(dict.fromkeys(e.name for c in conditions for e in x.walk(c) if isinstance(e, x.Variable)))

    @property
    def output_watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of the output clause."""
        output = self.plan.output
        parts = [] if output is None or output.when is None else x.walk(output.when)
        return tuple(dict.fromkeys(e.name for e in parts if isinstance(e, x.Variable)))


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
    shape = Shape(plan, node, where, aggregation, having, plan.root)
    _fill_in_stages(shape, streams)
    return shape


def _is(window: p.WindowSpec, name: str) -> bool:
    return window.name == name


def _remembers(call: p.AggregateCall) -> bool:
    """Whether the value depends on events that are not in the window any more."""
    return call.ever or call.name in ("leaving", "rate")


def _fill_in_stages(shape: Shape, streams: list[p.Windowed | p.Derived]) -> None:
    after = _after_window(shape)
    parts = [part for e in after if e is not None for part in x.walk(e)]
    shape.priors = tuple(dict.fromkeys(part for part in parts if isinstance(part, x.Prior)))
    derived = next((node for node in streams if isinstance(node, p.Derived)), None)
    windowed = [node for node in streams if isinstance(node, p.Windowed)]
    wildcard = shape.projection.wildcard
    if derived is None:
        below = windowed[0] if windowed else None
        shape.stages = (_stage(below, [shape.source.filter], after, wildcard, 0, shape.placed),)
        return
    below = windowed[-1] if windowed and windowed[-1] is derived.input else None
    above = windowed[0] if streams[0] is not derived and windowed else None
    derives = [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
    shape.stages = (
        _stage(below, [shape.source.filter, *derives], [], False, len(derives), True),
        _stage(above, [], after, wildcard, 0, True),
    )


def _stage(
    node: p.Windowed | None,
    arriving: list[Expr | None],
    after: list[Expr | None],
    wildcard: bool,
    more: int,
    by_ordinal: bool,
) -> Stage:
    windows = () if node is None else node.windows
    rows = [WINDOWS[w.name] for w in windows]
    later = list(after)
    for window, row in zip(windows, rows, strict=True):
        arriving = [*arriving, *window.args, *(e for e, _ in window.criteria)]
        if row.conditional:
            later += [*window.args, *_of_calls(window.calls)]
    parts = [part for e in later if e is not None for part in x.walk(e) if isinstance(part, x.WindowValue)]
    known_only_here = any(part.name.endswith("_event") for part in parts)
    timestamps = any(part.name.endswith("_timestamp") for part in parts)
    several = sum(row.kind != "grouping" for row in rows) > 1
    merged = any(_is(window, "merge") for window in windows)
    return Stage(
        windows,
        node is not None and node.union,
        tuple(lower.properties(*arriving, *later)),
        tuple(lower.properties(*later)),
        wildcard or known_only_here or lower.reads_event(*later),
        timestamps or any(row.keeps_time for row in rows),
        by_ordinal or several or merged or any(row.by_ordinal for row in rows),
        sum(row.operands for row in rows) + more,
    )


def _after_window(shape: Shape) -> list[Expr | None]:
    found: list[Expr | None] = [shape.where, shape.having, *shape.keys]
    found += _of_calls(shape.calls)
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
