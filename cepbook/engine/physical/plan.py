"""The physical plan: what a statement does with an event, step by step, as data.

::

    Scan | Match  →  Keep (views)  →  Derive | Unfold → Keep  →  Recognize → Keep
        →  Where  →  Fold (aggregates)  →  Row  →  Pace  →  Apply
    several of these inputs  →  Join  ↗

Every step takes what entered and what left, and passes on what that makes. `rows.lowering` makes the steps of a
statement's plan; the writer (`rows.compile`) makes one program of them, and asks them for facts, never for names. Steps
can be printed (``%epl show steps``, `rows.describe`).
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.physical.join import JoinOperator
from cepbook.engine.physical.operators import (
    TIME_VARYING,
    AggregateOperator,
    CycleOperator,
    DeriveOperator,
    EmitOperator,
    Eviction,
    FilterOperator,
    LookupOperator,
    Operator,
    OutputRateOperator,
    PatternOperator,
    ProjectOperator,
    RecognizeOperator,
    ScanOperator,
    UnnestOperator,
    WindowOperator,
)
from cepbook.errors import Span
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.registry.windows import WINDOWS, WindowRow


@dataclass(slots=True)
class PhysicalPlan:
    """The steps of one statement, and the facts that follow from several of them. `span` is its text.

    Rows are made from items of the last of `stages`. A statement that only sets or shows variables has no `row`. With a
    `join` there are `inputs`, steps up to their last windows, and the one stage holds combinations of their items.
    """

    span: Span
    context: str | None
    scan: ScanOperator | PatternOperator
    apply: EmitOperator
    stages: tuple[WindowOperator, ...] = ()
    derive: DeriveOperator | UnnestOperator | None = None
    finds: RecognizeOperator | None = None
    selection: FilterOperator | None = None
    fold: AggregateOperator | None = None
    row: ProjectOperator | None = None
    pace: OutputRateOperator | None = None
    priors: tuple[x.Prior, ...] = ()  # the calls of ``prior``
    owns: StoreType | None = None  # the named window whose rows its views keep
    table: StoreType | None = None  # the table that it is, which others fill
    fill: p.InitialFill | None = None  # what it begins with
    into: p.IntoTable | None = None  # where its aggregates are kept
    selects: p.OnSelectStatement | None = None  # events are joined with what a store holds, once each
    join: JoinOperator | None = None
    inputs: tuple[PhysicalPlan, ...] = ()
    lookup: LookupOperator | None = None  # of a subquery
    lots: bool = False  # all that comes in with an activation is one change
    cycles: CycleOperator | None = None  # it is run in cycles
    subqueries: tuple[PhysicalPlan, ...] = ()  # those of the statement

    @property
    def all(self) -> tuple[Operator, ...]:
        """The steps in the order in which a change takes them."""
        if self.join is not None or self.cycles is not None:
            taken: list[Operator | None] = [self.join or self.cycles]
        else:
            below, *above = self.stages or (None,)
            between = [self.derive] * (self.derive is not None) + [self.finds] * (self.finds is not None)
            taken = [self.scan, below, *(step for pair in zip(between, above, strict=True) for step in pair)]
        found = (*taken, self.selection, self.fold, self.row, self.pace, self.lookup or self.apply)
        return tuple(step for step in found if step is not None)

    @property
    def scans(self) -> tuple[ScanOperator | PatternOperator, ...]:
        """Where events come in, input by input."""
        return tuple(each.scan for each in self.inputs) or (self.scan,)

    @property
    def event_types(self) -> tuple[str, ...]:
        """The types of the events that it reads, each once; their subtypes are read, too."""
        return tuple(dict.fromkeys(n for s in self.scans if not s.source.lot for n in s.source.event_types))

    @property
    def waits(self) -> bool:
        """Whether others take an event first, without priorities: it may come on several ways, or rows are ordered."""
        types = [scan.source.event_type for scan in self.scans]
        ordered = self.row is not None and bool(self.projection.order_by)
        return self.matches or ordered or len(set(types)) < len(types)

    @property
    def in_order(self) -> bool:
        """Whether its events come from several streams, or go to several of its parts: their order decides."""
        return self.matches or bool(self.inputs or self.subqueries) or self.apply.merges is not None

    @property
    def matches(self) -> bool:
        """Whether an input takes the matches of a pattern."""
        return any(isinstance(scan, PatternOperator) for scan in self.scans)

    # -------------------------------------------------------------- of the plan
    @property
    def kind(self) -> p.QueryKind:
        return "unaggregated" if self.row is None else self.row.kind

    @property
    def source(self) -> p.SourceNode:
        return self.scan.source

    @property
    def windows(self) -> tuple[p.WindowSpec, ...]:
        """All windows, first to last."""
        stages = (*(stage for each in self.inputs for stage in each.stages), *self.stages)
        return tuple(window for stage in stages for window in stage.windows)

    @property
    def derived(self) -> p.Derivation | None:
        return self.derive.node if isinstance(self.derive, DeriveOperator) else None

    @property
    def recognize(self) -> p.Recognition | None:
        return None if self.finds is None else self.finds.node

    @property
    def where(self) -> BoundExpr | None:
        return None if self.selection is None else self.selection.predicate

    @property
    def aggregation(self) -> p.Aggregation | None:
        return None if self.fold is None else self.fold.aggregation

    @property
    def having(self) -> BoundExpr | None:
        return None if self.row is None else self.row.having

    @property
    def projection(self) -> p.Projection:
        assert self.row is not None, "the statement has no rows"
        return self.row.projection

    @property
    def output(self) -> p.OutputClause | None:
        return None if self.pace is None else self.pace.output

    @property
    def selector(self) -> p.Selector:
        """Which rows are made: those that are delivered, and those that are inserted."""
        selector, insert = self.apply.selector, self.apply.insert
        return selector if insert is None or insert.selector == selector else "irstream"

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that are read of events as they arrive."""
        return self.stages[0].properties

    @property
    def retains_event(self) -> bool:
        """Whether whole events are retained or shown."""
        return self.stages[0].retains_event

    @property
    def keys(self) -> tuple[BoundExpr, ...]:
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
    def makes_insert_rows(self) -> bool:
        return self.selector != "rstream"

    @property
    def makes_remove_rows(self) -> bool:
        """Whether rows are made of what leaves; some output clauses show them among the insert rows."""
        return self.selector != "istream" or self.inserts_evicted_rows

    @property
    def inserts_evicted_rows(self) -> bool:
        """Whether the output clause turns rows of what leaves into insert rows, see `output.collect`."""
        if self.output is None or self.kind != "aggregated_grouped" or self.selector == "rstream":
            return False
        return self.output.which == "first" or (self.output.which == "all" and not self.output.every_row)

    @property
    def fully(self) -> bool:
        """Whether rows stand for groups, not for events."""
        return self.kind in ("fully_aggregated", "fully_aggregated_grouped")

    @property
    def delivers(self) -> p.Selector:
        """Which rows leave the statement: a snapshot has insert rows only, whatever the stream selector is."""
        output = self.output
        return "istream" if output is not None and output.which == "snapshot" else self.selector

    @property
    def shown(self) -> p.Selector:
        """Which of the rows that leave listeners and sinks get; ``irstream`` is all of them."""
        return self.apply.selector if self.delivers == "irstream" else "irstream"

    @property
    def fed(self) -> p.Selector:
        """Which of the rows that leave are inserted; rows of one side only leave as insert rows."""
        insert = self.apply.insert
        return "istream" if insert is None or self.delivers != "irstream" else insert.selector

    # -------------------------------------------------------------- named windows and tables
    @property
    def consumes(self) -> bool:
        """Whether it reads a named window or table: changes come in, not events."""
        return self.source.store is not None and not self.inputs

    @property
    def shares(self) -> bool:
        """Whether it has to do with a named window or table."""
        return self.consumes or any((self.owns, self.selects, self.apply.merges, self.into))

    @property
    def holds(self) -> bool:
        """Whether there is something that rows are held in: data windows, its own or a named one."""
        return bool(self.stages[0].windows or self.inputs) or len(self.stages) > 1 or self.consumes

    # -------------------------------------------------------------- windows
    @property
    def window_names(self) -> tuple[str, ...]:
        """All data windows, without ``groupwin`` and ``merge``."""
        stages = (*(stage for each in self.inputs for stage in each.stages), *self.stages)
        return tuple(w.name for stage in stages for w in stage.holding)

    @property
    def _rows(self) -> list[WindowRow]:
        return [WINDOWS[name] for name in self.window_names]

    @property
    def only(self) -> p.WindowSpec | None:
        """The one data window, where there is one and no more; it may stand under ``groupwin``."""
        holding = self.stages[0].holding
        alone = len(self.stages) == 1 and len(holding) == 1 and not self.stages[0].merged
        return holding[0] if alone and not self.inputs else None

    @property
    def group_keys(self) -> tuple[BoundExpr, ...]:
        """The keys of ``groupwin`` over the one data window."""
        return self.stages[0].group_keys if self.only is not None else ()

    @property
    def timed(self) -> bool:
        """Whether the clock may change what the statement's windows hold or release, or when it delivers."""
        output = self.output
        output_timed = output is not None and output.kind in ("time", "at", "when")
        held = self.recognize is not None and self.recognize.interval is not None
        return output_timed or held or self.cycles is not None or any(row.timed for row in self._rows)

    @property
    def enters_alone(self) -> bool:
        """Whether an arrival that changes anything makes just the arriving event enter."""
        if (
            len(self.stages) > 1
            or self.inputs
            or self.consumes
            or self.owns is not None
            or self.sorts_matches
            or self.lots
        ):
            return False
        several = self.posts_empty_batches or self.passing or any(row.gates or row.hides for row in self._rows)
        return not (self.stages[0].merged or several)

    @property
    def sorts_matches(self) -> bool:
        """Whether the matches that a pattern makes at once are one change: so they are sorted (recorded:
        order_by_over_a_pattern). Without order by each match is a change of its own (recorded:
        pattern_multi_rows_count), and so is a limit for each.
        """
        matches = isinstance(self.scan, PatternOperator) and not self.inputs
        return matches and self.output is None and bool(self.row and self.projection.order_by)

    @property
    def posts_empty_batches(self) -> bool:
        """Whether a window may post a change of nothing, which is delivered: an empty batch. A join never does."""
        return not self.inputs and any(row.batch for row in self._rows)

    @property
    def posts_whole_batches(self) -> bool:
        """Whether each change is a whole batch for the whole batch before it."""
        return self.only is not None and self.only.row.batch and not self.group_keys

    @property
    def lazy(self) -> bool:
        """A time window nobody sees expiring: swept on arrival, on inspection and once per period."""
        only = None if self.lookup is not None or self.into is not None or self.lots else self.only
        if only is None or not only.row.lazy_expiry or self.makes_remove_rows or self.fully or not self._steady:
            return False
        groups = self.stages[0].groups
        return x.is_positive_period(only.args[0]) and (groups is None or groups.reclaim is None)

    @property
    def _steady(self) -> bool:
        """Whether rows depend on nothing but events and aggregates of what the window holds, and nothing can fail."""
        if self.output is not None or self.levels or self.sorts_matches:
            return False
        if self._reads(x.Prev, x.Prior, x.InsertStream):
            return False
        if self.aggregation is not None and (lower.may_fail(self.where, *self.keys) or self.former_rows_may_fail):
            return False
        if any(call.group_by is not None or lower.may_fail(*call.args, call.filter) for call in self.calls):
            return False
        emptied = self.grouped or self.posts_empty_batches
        return not (emptied and any(map(_remembers, self.calls)))

    def _reads(self, *kinds: type[BoundExpr]) -> bool:
        """Whether rows, conditions or aggregates read an expression of one of `kinds`."""
        parts = (part for e in expressions_after_windows(self) if e is not None for part in x.walk(e))
        return any(isinstance(part, kinds) for part in parts)

    @property
    def placed(self) -> bool:
        """Whether the place of an event in the window is asked for."""
        return self._reads(x.Prev)

    @property
    def resets(self) -> bool:
        """Whether the aggregates of each batch are made anew: nothing of earlier ones shows."""
        if self.passing:
            return True
        if self.join is not None:
            return self.join.unidirectional
        return self.posts_whole_batches and self._steady and self.lookup is None and self.into is None

    @property
    def passing(self) -> bool:
        """Whether what its rows are made of is gone when they were made: of a join, the events of one input."""
        if self.inputs:
            return any(each.passing for each in self.inputs)
        return any(window.row.passing for window in self.stages[-1].windows)

    @property
    def aggregate_only(self) -> bool:
        """Whether a batch needs no events, only aggregates."""
        return self.resets and self.fully and self.only is not None and self.only.row.counts

    @property
    def clock_starts_with_group(self) -> bool:
        """Whether the clock of a batch that runs along can only start with a new group."""
        return self.aggregate_only and self.timed and self.where is None

    @property
    def ticks(self) -> bool:
        """Whether an advance of the clock may concern the windows or the output."""
        return self.timed or bool(self.watched)

    # -------------------------------------------------------------- aggregates
    @property
    def leaving(self) -> Eviction:
        """How events leave one group of the aggregation."""
        within = self._leaving()
        parts = (part for e in aggregate_inputs(self.calls) if e is not None for part in x.walk(e))
        nested = any(isinstance(part, x.AggregateRef) for part in parts)  # other values leave than entered
        return Eviction.ARBITRARY if within is Eviction.FIFO and (self.changing or nested) else within

    @property
    def related(self) -> bool:
        """Whether what the views hold is kept in a relation, and aggregates are made anew at each look."""
        return self.lookup is not None and self.lookup.access is not None

    def _leaving(self) -> Eviction:
        if self.resets or self.related:
            return Eviction.NONE
        if self.inputs or (self.lookup is not None and self.lookup.follows):
            return Eviction.ARBITRARY
        holding = [w for stage in self.stages for w in stage.holding]
        if len(self.stages) > 1 or len(holding) > 1 or self.stages[0].merged or self.shares or self.into:
            return Eviction.ARBITRARY
        leaves = holding[0].row.leaves if holding else "never"
        within = Eviction.NONE if leaves is None else Eviction(leaves)
        groups = set(self.stages[0].group_keys)
        keys = set(self.keys) if not self.levels else set[BoundExpr]()
        if within is Eviction.FIFO and groups and not groups <= keys:
            return Eviction.ARBITRARY
        return within

    @property
    def local_eviction(self) -> Eviction:
        """How events leave a local group, whatever its keys."""
        grouped = any(stage.group_keys for stage in self.stages)
        return Eviction.ARBITRARY if self.leaving is Eviction.FIFO and grouped else self.leaving

    @property
    def may_leave_unentered(self) -> bool:
        """Whether what leaves may never have entered: the first former value of a derived-value window, a combination
        of an outer join whose missing event came and went.
        """
        if self.join is not None:
            return True  # conditions are tested when a combination leaves, with what variables and the others are then
        return self.changing or (len(self.stages) > 1 and not self.stages[-1].windows)

    @property
    def former_rows_may_fail(self) -> bool:
        """Whether making the row of before a change may fail, while the cells must still move."""
        projection = self.projection
        shown = [*(c.value for c in projection.columns), *(e for e, _ in projection.order_by), self.having]
        return self.makes_remove_rows and lower.may_fail(*shown)

    @property
    def reclaims(self) -> bool:
        """Whether groups are forgotten that nothing touches for a while."""
        reclaim = None if self.aggregation is None or self.into is not None else self.aggregation.reclaim
        return reclaim is not None and not self.levels and not self.resets  # rows of a table stay

    @property
    def changing(self) -> bool:
        """Whether an event may belong to other groups, or not pass where, by the time it leaves: nothing keeps that.

        An event that leaves a group, or all events, without having entered is ignored; one that does not leave stays.
        Nor does anything keep which events were in a group that was forgotten.
        """
        if self.reclaims and self.window_names:
            return True
        parts = [self.where, *self.keys, *(e for call in self.calls for e in call.group_by or ())]
        return any(isinstance(part, TIME_VARYING) for e in parts if e is not None for part in x.walk(e))

    @property
    def evicts_own_group(self) -> bool:
        """Whether an event that an arrival pushes out belongs to the arrival's own group."""
        within = bool(self.group_keys) and self.grouped and set(self.keys) <= set(self.group_keys)
        return within and not self.changing

    # -------------------------------------------------------------- variables
    @property
    def watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of a window."""
        conditions = [w.args[0] for w in self.windows if w.row.has_condition]
        return tuple(dict.fromkeys(e.name for c in conditions for e in x.walk(c) if isinstance(e, x.VariableRead)))

    @property
    def output_watched(self) -> tuple[str, ...]:
        """The variables whose changes evaluate the condition of the output clause."""
        output = self.output
        parts = [] if output is None or output.when is None else x.walk(output.when)
        return tuple(dict.fromkeys(e.name for e in parts if isinstance(e, x.VariableRead)))


def _remembers(call: p.AggregateCall) -> bool:
    """Whether the value depends on events that are not in the window any more."""
    return call.ever or aggregate_row(call.name).remembers


def expressions_after_windows(steps: PhysicalPlan) -> list[BoundExpr | None]:
    """What is read of items behind the windows, for rows, conditions and aggregates."""
    found: list[BoundExpr | None] = [steps.where, steps.having, *steps.keys]
    found += aggregate_inputs(steps.calls)
    found += [column.value for column in steps.projection.columns]
    found += [e for e, _ in steps.projection.order_by]
    return found


def aggregate_inputs(calls: tuple[p.AggregateCall, ...]) -> list[BoundExpr | None]:
    """What aggregate calls evaluate for each event."""
    found: list[BoundExpr | None] = []
    for call in calls:
        found += [*call.args, call.filter, *(call.group_by or ()), *(e for e, _ in call.criteria)]
    return found
