"""The physical plan of one statement: its operators, and the facts that follow from several of them.

A fact is computed here once, from the operators, and read by everything behind: the code generator, the replay planner,
and Spark's placement. Three questions decide most of them:

* *Which event is alone?* If an arriving event is all that enters (`enters_alone`), its code needs no loop.
* *How do events leave a group?* `eviction` decides what a minimum or a first value must keep.
* *Who sees events leave?* Nobody sees the events of a `lazy` window expire, so no timer is needed for them.

`lowering` creates plans. `%epl show steps` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.physical import operators as op
from cepbook.engine.physical.join import JoinOperator
from cepbook.errors import Span
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.registry.aggregates import aggregate_row
from cepbook.lang.registry.windows import WINDOWS, WindowRow


@dataclass(slots=True)
class PhysicalPlan:
    """The operators of one statement. `span` is its place in the EPL text.

    Rows are made from items of the last of `stages`. A statement that only assigns variables has no `row`. With a
    `join`, `inputs` are the plans of its streams up to their last windows, and the only stage holds combinations of
    their items.
    """

    span: Span
    context: str | None
    scan: op.ScanOperator | op.PatternOperator
    emit: op.EmitOperator
    stages: tuple[op.WindowOperator, ...] = ()
    derive: op.DeriveOperator | op.UnnestOperator | None = None
    recognizer: op.RecognizeOperator | None = None
    filter: op.FilterOperator | None = None
    aggregate: op.AggregateOperator | None = None
    row: op.ProjectOperator | None = None
    output_rate: op.OutputRateOperator | None = None
    priors: tuple[x.Prior, ...] = ()  # the calls of ``prior``
    owned_store: StoreType | None = None  # of ``create window``: the window
    table: StoreType | None = None  # of ``create table``: the table
    initial_rows: p.InitialFill | None = None  # rows at the start
    into: p.IntoTable | None = None  # the table that keeps the aggregates
    on_select: p.OnSelectStatement | None = None  # each event is joined with the rows of a store
    join: JoinOperator | None = None
    inputs: tuple[PhysicalPlan, ...] = ()
    lookup: op.LookupOperator | None = None  # of a subquery
    buffers_input: bool = False  # all events of an activation are one delta
    cycle: op.CycleOperator | None = None  # of a query that is run in cycles
    subqueries: tuple[PhysicalPlan, ...] = ()  # those of the statement

    @property
    def all(self) -> tuple[op.Operator, ...]:
        """The operators in the order in which a delta passes them."""
        if self.join is not None or self.cycle is not None:
            below_filter: list[op.Operator | None] = [self.join or self.cycle]
        else:
            below, *above = self.stages or (None,)
            between = [self.derive] * (self.derive is not None) + [self.recognizer] * (self.recognizer is not None)
            below_filter = [self.scan, below, *(step for pair in zip(between, above, strict=True) for step in pair)]
        operators = (*below_filter, self.filter, self.aggregate, self.row, self.output_rate, self.lookup or self.emit)
        return tuple(step for step in operators if step is not None)

    @property
    def scans(self) -> tuple[op.ScanOperator | op.PatternOperator, ...]:
        """The operators that read events, one per input."""
        return tuple(input_.scan for input_ in self.inputs) or (self.scan,)

    @property
    def event_types(self) -> tuple[str, ...]:
        """The event types that the statement reads, without duplicates. Subtypes of these are read, too."""
        return tuple(dict.fromkeys(n for s in self.scans if not s.source.lot for n in s.source.event_types))

    @property
    def dispatched_last(self) -> bool:
        """True if statements without this property see an event first, where no priorities are given. These are
        statements that may receive one event in several ways, or that order their rows.
        """
        types = [scan.source.event_type for scan in self.scans]
        ordered = self.row is not None and bool(self.projection.order_by)
        return self.reads_pattern or ordered or len(set(types)) < len(types)

    @property
    def joins_one_type(self) -> bool:
        """True for a join whose inputs all read the same events: streams of one type, each with its own filter."""
        sources = [scan.source for scan in self.scans]
        streams = all(source.store is None and not source.contained for source in sources) and not self.reads_pattern
        return streams and not self.buffers_input and len({source.event_type for source in sources}) == 1

    @property
    def needs_event_order(self) -> bool:
        """True if the order of events across streams matters: the statement has several inputs or subqueries."""
        return self.reads_pattern or bool(self.inputs or self.subqueries) or self.emit.merges is not None

    @property
    def reads_pattern(self) -> bool:
        """True if an input reads the matches of a pattern."""
        return any(isinstance(scan, op.PatternOperator) for scan in self.scans)

    @property
    def kind(self) -> p.QueryKind:
        return "unaggregated" if self.row is None else self.row.kind

    @property
    def source(self) -> p.SourceNode:
        return self.scan.source

    @property
    def windows(self) -> tuple[p.WindowSpec, ...]:
        stages = (*(stage for input_ in self.inputs for stage in input_.stages), *self.stages)
        return tuple(window for stage in stages for window in stage.windows)

    @property
    def derived(self) -> p.Derivation | None:
        return self.derive.node if isinstance(self.derive, op.DeriveOperator) else None

    @property
    def recognize(self) -> p.Recognition | None:
        return None if self.recognizer is None else self.recognizer.node

    @property
    def where(self) -> BoundExpr | None:
        return None if self.filter is None else self.filter.predicate

    @property
    def aggregation(self) -> p.Aggregation | None:
        return None if self.aggregate is None else self.aggregate.aggregation

    @property
    def having(self) -> BoundExpr | None:
        return None if self.row is None else self.row.having

    @property
    def projection(self) -> p.Projection:
        assert self.row is not None, "the statement has no rows"
        return self.row.projection

    @property
    def output(self) -> p.OutputClause | None:
        return None if self.output_rate is None else self.output_rate.output

    @property
    def selector(self) -> p.Selector:
        """The rows that are made: those that are delivered and those that are inserted."""
        selector, insert = self.emit.selector, self.emit.insert
        return selector if insert is None or insert.selector == selector else "irstream"

    @property
    def properties(self) -> tuple[str, ...]:
        """The properties that are read of arriving events."""
        return self.stages[0].properties

    @property
    def retains_event(self) -> bool:
        """True if whole events are retained or returned."""
        return self.stages[0].retains_event

    @property
    def keys(self) -> tuple[BoundExpr, ...]:
        return () if self.aggregation is None else self.aggregation.keys

    @property
    def levels(self) -> tuple[tuple[int, ...], ...]:
        """The grouping sets of ``rollup`` and the like, as indexes into `keys`."""
        return () if self.aggregation is None else self.aggregation.levels

    @property
    def calls(self) -> tuple[p.AggregateCall, ...]:
        return () if self.aggregation is None else self.aggregation.calls

    @property
    def grouped(self) -> bool:
        return bool(self.keys)

    @property
    def makes_insert_rows(self) -> bool:
        return self.selector != "rstream"

    @property
    def makes_remove_rows(self) -> bool:
        """True if rows are made of left events. Some output clauses return these as insert rows."""
        return self.selector != "istream" or self.inserts_evicted_rows

    @property
    def inserts_evicted_rows(self) -> bool:
        """True if the output clause turns rows of left events into insert rows (see `output.collectors`)."""
        if self.output is None or self.kind != "aggregated_grouped" or self.selector == "rstream":
            return False
        return self.output.which == "first" or (self.output.which == "all" and not self.output.every_row)

    @property
    def rows_per_group(self) -> bool:
        """True if a row stands for a group, not for an event."""
        return self.kind in ("fully_aggregated", "fully_aggregated_grouped")

    @property
    def delivered_selector(self) -> p.Selector:
        """The rows that leave the statement. A snapshot has only insert rows, whatever the stream selector is."""
        output = self.output
        return "istream" if output is not None and output.which == "snapshot" else self.selector

    @property
    def listener_selector(self) -> p.Selector:
        """The rows, of those that leave the statement, that listeners and sinks receive; ``irstream`` is all."""
        return self.emit.selector if self.delivered_selector == "irstream" else "irstream"

    @property
    def insert_selector(self) -> p.Selector:
        """The rows, of those that leave the statement, that are inserted. Rows of one side leave as insert rows."""
        insert = self.emit.insert
        return "istream" if insert is None or self.delivered_selector != "irstream" else insert.selector

    @property
    def reads_store(self) -> bool:
        """True if the only input is a named window or table, whose changes the statement receives."""
        return self.source.store is not None and not self.inputs

    @property
    def views_store(self) -> bool:
        """True if a view makes derived events or matches of the rows of the store that the statement reads."""
        return self.reads_store and (self.recognize is not None or self.derived is not None)

    @property
    def touches_store(self) -> bool:
        """True if the statement reads, owns or changes a named window or table."""
        return self.reads_store or any((self.owned_store, self.on_select, self.emit.merges, self.into))

    @property
    def reads_only_tables(self) -> bool:
        """True if all inputs are tables, which do not report changes."""
        stores = [scan.source.store for scan in self.scans]
        return all(store is not None and store.kind == "table" for store in stores)

    @property
    def retains_events(self) -> bool:
        """True if rows are made of retained events: in data windows of the statement, or in a named window."""
        return bool(self.stages[0].windows or self.inputs) or len(self.stages) > 1 or self.reads_store

    @property
    def data_window_names(self) -> tuple[str, ...]:
        """The names of all data windows, without ``groupwin`` and ``merge``."""
        stages = (*(stage for input_ in self.inputs for stage in input_.stages), *self.stages)
        return tuple(w.name for stage in stages for w in stage.holding)

    @property
    def _rows(self) -> list[WindowRow]:
        return [WINDOWS[name] for name in self.data_window_names]

    @property
    def single_window(self) -> p.WindowSpec | None:
        """The data window of a statement that has exactly one; None for others. It may stand under ``groupwin``."""
        holding = self.stages[0].holding
        alone = len(self.stages) == 1 and len(holding) == 1 and not self.stages[0].merged
        return holding[0] if alone and not self.inputs else None

    @property
    def group_keys(self) -> tuple[BoundExpr, ...]:
        return self.stages[0].group_keys if self.single_window is not None else ()

    @property
    def timed(self) -> bool:
        """True if an advance of time may change what windows hold, or may release rows."""
        output = self.output
        output_timed = output is not None and output.kind in ("time", "at", "when")
        within_interval = self.recognize is not None and self.recognize.interval is not None
        return output_timed or within_interval or self.cycle is not None or any(row.timed for row in self._rows)

    @property
    def enters_alone(self) -> bool:
        """True if an arriving event that causes a delta is the only event that enters in it."""
        if (
            len(self.stages) > 1
            or self.inputs
            or self.reads_store
            or self.owned_store is not None
            or self.sorts_matches
            or self.buffers_input
        ):
            return False
        several = self.posts_empty_batches or self.discards_events or any(row.gates or row.hides for row in self._rows)
        return not (self.stages[0].merged or several)

    @property
    def enters_rows_alone(self) -> bool:
        """True if an arriving event is the next row of `match_recognize` and none leaves, and of matches that share
        rows only the earliest is reported, as soon as it is complete.
        """
        node = self.recognize
        if node is None or self.windows or self.derive is not None or self.reads_store or self.reads_pattern:
            return False
        if self.buffers_input or node.interval is not None or node.iterate_only:
            return False
        return node.skip == "past last row" and not node.all_matches

    @property
    def sorts_matches(self) -> bool:
        """True if all matches that one event completes are one delta, so that they are sorted together. Without ``order
        by`` each match is a delta of its own (recorded: order_by_over_a_pattern, pattern_multi_rows_count), and a limit
        applies to each.
        """
        matches = isinstance(self.scan, op.PatternOperator) and not self.inputs
        return matches and self.output is None and bool(self.row and self.projection.order_by)

    @property
    def posts_empty_batches(self) -> bool:
        """True if a window may post an empty batch, which is delivered. A join never does."""
        return not self.inputs and any(row.batch for row in self._rows)

    @property
    def posts_whole_batches(self) -> bool:
        """True if every delta replaces the whole former batch by a whole new one."""
        return self.single_window is not None and self.single_window.row.batch and not self.group_keys

    @property
    def lazy(self) -> bool:
        """True for a time window whose expiry nobody sees: swept on arrival, on inspection and once per period."""
        only = None if self.lookup is not None or self.into is not None or self.buffers_input else self.single_window
        if only is None or not only.row.lazy_expiry:
            return False
        if self.collects_groups:  # of several views each leaps by its own timer
            unseen = self.context is None and not self.group_keys
        else:
            unseen = self._steady and not (self.makes_remove_rows or self.rows_per_group)
        if not unseen:
            return False
        groups = self.stages[0].groups
        return x.is_positive_period(only.args[0]) and (groups is None or groups.reclaim is None)

    @property
    def collects_groups(self) -> bool:
        """True if the output clause needs only the keys of the groups that a change has touched: at fixed times, or at
        the end of the context partition, it delivers their present rows, and no row is made before.
        """
        output = self.output
        if output is None or output.which not in ("last", "all", "snapshot"):
            return False
        at_end = output.kind == "terminated" and output.terminated_when is None and not output.terminated_then
        if not (at_end or (output.kind in ("time", "at") and not output.and_terminated)):
            return False
        if output.after is not None or not output.has_constant_rate:
            return False
        if self.kind != "fully_aggregated_grouped" or self.makes_remove_rows or self.reclaims or self.buffers_input:
            return False
        if self.inputs or self.touches_store or self.lookup is not None or self.discards_events:
            return False
        return self._follows_window and not lower.may_fail(self.having, *self.projection.row_expressions)

    @property
    def _steady(self) -> bool:
        """True if rows depend only on events and on aggregates of the window's contents, and nothing can fail."""
        return self.output is None and self._follows_window

    @property
    def _follows_window(self) -> bool:
        """True of what is `_steady` but for an output clause."""
        if self.levels or self.sorts_matches:
            return False
        if self._reads(x.Prev, x.Prior, x.InsertStream):
            return False
        fails = lower.may_fail(self.where, *self.keys, checks=False)
        if self.aggregation is not None and (fails or self.former_rows_may_fail):
            return False
        if any(call.group_by is not None or lower.may_fail(*call.args, call.filter) for call in self.calls):
            return False
        emptied = self.grouped or self.posts_empty_batches
        return not (emptied and any(call.ever or aggregate_row(call.name).remembers for call in self.calls))

    def _reads(self, *kinds: type[BoundExpr]) -> bool:
        nodes = (node for e in expressions_after_windows(self) if e is not None for node in x.walk(e))
        return any(isinstance(node, kinds) for node in nodes)

    @property
    def reads_prev(self) -> bool:
        """True if the position of an event in its window is read."""
        return self._reads(x.Prev)

    @property
    def resets_aggregates(self) -> bool:
        """True if the aggregates start afresh with every delta, since no earlier batch is visible."""
        if self.discards_events:
            return True
        if self.join is not None:
            return self.join.unidirectional
        return self.posts_whole_batches and self._steady and self.lookup is None and self.into is None

    @property
    def discards_events(self) -> bool:
        """True if the events of rows are discarded once the rows are made. Of a join: the events of one input."""
        if self.inputs:
            return any(input_.discards_events for input_ in self.inputs)
        return any(window.row.passing for window in self.stages[-1].windows)

    @property
    def aggregate_only(self) -> bool:
        """True if a batch window need not keep events, because only aggregates are visible."""
        single = self.single_window
        return self.resets_aggregates and self.rows_per_group and single is not None and single.row.counts

    @property
    def clock_starts_with_group(self) -> bool:
        """True if only a new group can start the clock of a batch without events."""
        return self.aggregate_only and self.timed and self.where is None

    @property
    def ticks(self) -> bool:
        """True if an advance of time, or a variable that a window reads, may concern windows or output."""
        return self.timed or bool(self.watched)

    @property
    def eviction(self) -> op.Eviction:
        """The order in which events leave one group of the aggregation."""
        within = self._leaving()
        nodes = (node for e in aggregate_inputs(self.calls) if e is not None for node in x.walk(e))
        nested = any(isinstance(node, x.AggregateRef) for node in nodes)  # other values leave than entered
        mixed = self.membership_may_change or nested
        return op.Eviction.ARBITRARY if within is op.Eviction.FIFO and mixed else within

    @property
    def keeps_relation(self) -> bool:
        """True if events are kept in a relation and aggregates are computed at each lookup (subqueries)."""
        return self.lookup is not None and self.lookup.access is not None

    def _leaving(self) -> op.Eviction:
        if self.resets_aggregates or self.keeps_relation:
            return op.Eviction.NONE
        if self.inputs or (self.lookup is not None and self.lookup.follows):
            return op.Eviction.ARBITRARY
        holding = [w for stage in self.stages for w in stage.holding]
        if len(self.stages) > 1 or len(holding) > 1 or self.stages[0].merged or self.touches_store or self.into:
            return op.Eviction.ARBITRARY
        leaves = holding[0].row.leaves if holding else "never"
        within = op.Eviction.NONE if leaves is None else op.Eviction(leaves)
        groups = set(self.stages[0].group_keys)
        keys = set(self.keys) if not self.levels else set[BoundExpr]()
        if within is op.Eviction.FIFO and groups and not groups <= keys:
            return op.Eviction.ARBITRARY
        return within

    @property
    def local_eviction(self) -> op.Eviction:
        """The order in which events leave a local group, whatever its keys are."""
        grouped = any(stage.group_keys for stage in self.stages)
        return op.Eviction.ARBITRARY if self.eviction is op.Eviction.FIFO and grouped else self.eviction

    @property
    def may_leave_unentered(self) -> bool:
        """True if an event or combination may leave that never entered. Examples are the first former value of a
        derived-value window, and a combination of an outer join whose missing event came and went.
        """
        if self.join is not None:
            return True  # conditions are tested again when a combination leaves, with the values at that time
        return self.membership_may_change or (len(self.stages) > 1 and not self.stages[-1].windows)

    @property
    def former_rows_may_fail(self) -> bool:
        """True if the row before a change may fail to be made; accumulators must be updated all the same."""
        return self.makes_remove_rows and lower.may_fail(self.having, *self.projection.row_expressions)

    @property
    def reclaims(self) -> bool:
        """True if groups are dropped that no event has touched for some time."""
        reclaim = None if self.aggregation is None or self.into is not None else self.aggregation.reclaim
        return reclaim is not None and not self.levels and not self.resets_aggregates  # rows of a table stay

    @property
    def membership_may_change(self) -> bool:
        """True if an event may belong to another group, or pass the filter no more, when it leaves. Nothing records the
        group that an event entered, nor the events of a dropped group. So an event that leaves a group without having
        entered is ignored, and one that leaves no group stays.
        """
        if self.reclaims and self.data_window_names:
            return True
        conditions = [self.where, *self.keys, *(e for call in self.calls for e in call.group_by or ())]
        return any(isinstance(node, op.TIME_VARYING) for e in conditions if e is not None for node in x.walk(e))

    @property
    def evicts_own_group(self) -> bool:
        """True if the event that an arriving event evicts belongs to the same group."""
        within = bool(self.group_keys) and self.grouped and set(self.keys) <= set(self.group_keys)
        return within and not self.membership_may_change

    @property
    def watched(self) -> tuple[str, ...]:
        """The variables whose assignment evaluates the condition of a window."""
        conditions = [w.args[0] for w in self.windows if w.row.has_condition]
        return tuple(dict.fromkeys(e.name for c in conditions for e in x.find(x.VariableRead, c)))

    @property
    def output_watched(self) -> tuple[str, ...]:
        """The variables whose assignment evaluates the condition of the output clause."""
        output = self.output
        nodes = [] if output is None or output.when is None else x.walk(output.when)
        return tuple(dict.fromkeys(e.name for e in nodes if isinstance(e, x.VariableRead)))


def expressions_after_windows(steps: PhysicalPlan) -> list[BoundExpr | None]:
    """Return the expressions that are evaluated for items after the windows: for rows, conditions and aggregates."""
    clauses = steps.where, steps.having, *steps.keys
    return [*clauses, *aggregate_inputs(steps.calls), *steps.projection.row_expressions]


def aggregate_inputs(calls: tuple[p.AggregateCall, ...]) -> list[BoundExpr | None]:
    """Return the expressions that aggregate calls evaluate for each event."""
    expressions: list[BoundExpr | None] = []
    for call in calls:
        expressions += [*call.args, call.filter, *(call.group_by or ()), *(e for e, _ in call.criteria)]
    return expressions
