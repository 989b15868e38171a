"""The chain of plan nodes of one query, from its `Source` up to its `Projection`::

    Projection          select-clause columns
      Having            optional
        Aggregation     optional: group-by keys, aggregate calls
          Selection     optional: the where-clause
          Recognize     or match_recognize, which has it: matches are events of a type of their own
            Windowed    optional: data windows over events or derived events (or a Join of such chains)
            Derived     optional: a derived-value window, events of a type of its own
              Windowed  optional: data windows, first to last
                Source  event type and filter

Statements and subqueries have one (`lang.plan`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeVar

from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.plan.expressions import BoundExpr, Const, Period, conjuncts
from cepbook.lang.plan.key_requirement import (
    NO_REQUIREMENT,
    KeyRequirement,
    equal_columns,
    equal_properties,
    equality_choices,
    one_of,
    plain_key_properties,
)
from cepbook.lang.plan.pattern import Atom, Pattern
from cepbook.lang.plan.plan_node import ContainedSelection, OutputColumn, PlanNode
from cepbook.lang.plan.row_pattern import RowRegex
from cepbook.lang.registry.windows import WINDOWS, WindowRow
from cepbook.lang.types import Type

Selector = Literal["istream", "rstream", "irstream"]
# The five query kinds (basic concepts, "Output of statement types")
QueryKind = Literal[
    "unaggregated",  # rows of events
    "fully_aggregated",  # no group by, only aggregates: one row
    "aggregated",  # no group by, aggregates and event properties: a row per event
    "fully_aggregated_grouped",  # group by, select only keys and aggregates: a row per group
    "aggregated_grouped",  # group by, other properties too: a row per event
]


NO_EVENTS = ""  # the event type that a statement without a from-clause reads: no event is of it


@dataclass(frozen=True, slots=True)
class SourceNode(PlanNode):
    """Events of `event_type` (and its subtypes) that pass `filter`; or the matches of `pattern`.

    With a pattern `event_type` names the type of its matches, which is in no catalog, and there is no filter. A select
    without a from-clause reads `NO_EVENTS`: it has one row per context partition, at its allocation, or at its end
    under ``output when terminated``, and its iterator one for each that lives.

    With a `store` it is not events that are read but the named window or table: what enters and what leaves it.

    With `contained` it is the events within those of `event_type` that everything above refers to.

    With `lot` the rows that a statement inserts into `event_type` in one activation come in together.
    """

    event_type: str
    filter: BoundExpr | None
    alias: str | None
    pattern: Pattern | None = None
    store: StoreType | None = None
    contained: tuple[ContainedSelection, ...] = ()
    lot: bool = False

    @property
    def without_from(self) -> bool:
        """True if there is no from-clause: the statement has one row per context partition."""
        return self.event_type == NO_EVENTS

    @property
    def plain(self) -> bool:
        """True if the source is the events of one type, each by itself and as it is."""
        return not (self.without_from or self.pattern or self.store or self.contained or self.lot)

    @property
    def event_types(self) -> tuple[str, ...]:
        """The event types that the source reads, each once and without subtypes."""
        if self.store is not None:
            return ()
        if self.pattern is None:
            return (self.event_type,)
        return tuple(dict.fromkeys(atom.event_type for atom in self.atoms))

    @property
    def names_read(self) -> tuple[str, ...]:
        """The event types or the store that the from-clause names."""
        types = () if self.without_from else self.event_types
        return types if self.store is None else (self.store.name,)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms of the pattern, if there is one."""
        return () if self.pattern is None else self.pattern.atoms


@dataclass(frozen=True, slots=True)
class StoreLookup:
    """The rows of `store` that an on-trigger visits for an event of `source`: all `conditions` hold.

    In the conditions stream 0 is the row and stream 1 the event. The event arrives as input `number` of the statement.
    With `silent` the statement of the store delivers no remove rows for rows that are deleted.
    """

    store: StoreType
    source: SourceNode
    conditions: tuple[BoundExpr, ...]
    number: int
    silent: bool

    @property
    def key_requirement(self) -> KeyRequirement:
        """An event retains nothing, and must reach the task with the rows of its key."""
        choices = equality_choices(self.conditions, (self.store.name, self.source.event_type))
        return one_of(choices, f"its condition does not look up rows of {self.store.name} by a key")


@dataclass(frozen=True, slots=True)
class WindowSpec(PlanNode):
    """One data window of `lang.registry.windows.WINDOWS` with its bound parameters, in order.

    ``groupwin`` has the keys as `args` and applies to all windows behind it, up to ``merge`` (no args). A duration
    parameter is an `expr.Period` (numbers of seconds are converted by the binder). ``sort`` has its size as the only
    arg, ``rank`` its size and then its keys; the sort order of both is `criteria`: (expression, descending). The
    condition of ``expr`` and ``expr_batch`` may refer to `calls` by `expr.AggregateRef`, and to `expr.WindowValue`.
    """

    name: str
    args: tuple[BoundExpr, ...]
    options: tuple[str, ...] = ()  # flow-control keywords in upper case: FORCE_UPDATE, START_EAGER
    criteria: tuple[tuple[BoundExpr, bool], ...] = ()
    calls: tuple[AggregateCall, ...] = ()
    # of groupwin, from @Hint: (reclaim_group_aged, reclaim_group_freq) in clock units
    reclaim: tuple[int, int] | None = None

    @property
    def row(self) -> WindowRow:
        return WINDOWS[self.name]

    @property
    def constants(self) -> tuple[object, ...]:
        """The values of those parameters that are constants, such as a size or a reference point; no periods."""
        return tuple(arg.value for arg in self.args if isinstance(arg, Const))

    @property
    def written_name(self) -> str:
        """The name that the statement uses: of a window written in Python, that of its class."""
        return (self.args[-1].python_function if self.args else "") or self.name


def windows_key_requirement(windows: Sequence[WindowSpec], event_type: str, expiry_shows: bool) -> KeyRequirement:
    """Return which events must be together in `windows`. Besides ``groupwin`` at most one window divides by a key.

    `expiry_shows`: rows show the order in which events expire.
    """
    grouping = windows[0] if windows and windows[0].row.grouping else None
    rest = windows[1:] if grouping is not None else windows
    if len(rest) > 1:
        return KeyRequirement(reason="several data windows keep events together")
    row = WINDOWS[rest[0].name if rest else "keepall"]
    window = rest[0].written_name if rest else row.name
    if row.alone and row.timed and expiry_shows:
        reason = "events of all keys that expire together leave in one delivery, in order of arrival"
        return KeyRequirement(reason=reason)
    if grouping is not None:
        if not row.independent_groups:
            return KeyRequirement(reason=f"the window {window} is not known to run for each group by itself")
        keys = plain_key_properties(grouping.args)
        return equal_columns(event_type, keys, "no groupwin key is a plain property")
    if row.alone:
        return NO_REQUIREMENT
    if row.divides:
        keys = plain_key_properties(rest[0].args)
        return equal_columns(event_type, keys, "no unique criterion is a plain property")
    return KeyRequirement(reason=f"the window {window} holds events of all keys")


@dataclass(frozen=True, slots=True)
class KeyContext:
    """The facts about the surroundings of a statement on which its key requirement depends.

    `stored_windows` has the data windows of each named window. `target` is the statement whose rows are wanted.
    `clocked`: an advance of the clock may deliver rows. `required_streams` has, for each stream of a join, the streams
    of which a row always has an event if it has one of that stream.
    """

    stored_windows: Mapping[str, tuple[WindowSpec, ...]]
    clocked: bool
    target: str
    required_streams: Sequence[Set[int]]

    def windows_below(self, stream: StreamNode) -> tuple[WindowSpec, ...]:
        """Return the data windows of a stream, after those of the named window that it reads."""
        store = source_of(stream).store
        return (*(() if store is None else self.stored_windows.get(store.name, ())), *windows_of(stream))


@dataclass(frozen=True, slots=True)
class Windowed(PlanNode):
    """The data windows, first to last; ``groupwin`` gives each key instances of its own of those behind it.

    Several windows are an intersection (an event leaves when one of them drops it) unless `union` (when all have).
    """

    input: SourceNode | Derivation
    windows: tuple[WindowSpec, ...]
    union: bool = False

    @property
    def derivation(self) -> Derivation | None:
        """The derived-value window whose events the windows hold; None if they hold those of the source."""
        return self.input if isinstance(self.input, Derivation) else None


@dataclass(frozen=True, slots=True)
class Derivation(PlanNode):
    """A derived-value window: each change of its input makes one derived event of type `event_type`.

    `name` and `args` are those of `lang.registry.windows`. The derived event has the statistic's own fields, then
    `extra` columns, which are taken from the last event that arrived (null before the first). `keys` are those of
    ``groupwin`` before it: columns that come first in `event_type`. Each group has its own values.
    Above it in the chain, `expr.Prop` and `expr.EventOf` refer to derived events.
    """

    input: Windowed | SourceNode
    name: str
    args: tuple[BoundExpr, ...]
    extra: tuple[OutputColumn, ...]
    keys: tuple[OutputColumn, ...]
    event_type: EventType

    @property
    def order_reason(self) -> str:
        """The reason why the window needs all events in order."""
        return f"the window {self.name} derives values from the events of all keys"


RECLAIM_REASON = "an event of any key may remove groups"
ARRANGED_REASON = "rows of all keys that are delivered together are sorted, limited or made distinct"
JoinKind = Literal["inner", "left", "right", "full"]


@dataclass(frozen=True, slots=True)
class JoinInput(PlanNode):
    """One stream of a join: a chain of its own, whose expressions call its events those of stream 0.

    `kind` and `on` join it to the streams before it. `on` reads this stream, and with outer joins at most one other;
    None: every pair. When any stream is `unidirectional` only the events of such streams make rows, and nothing leaves.
    """

    stream: Windowed | Derivation | SourceNode
    kind: JoinKind = "inner"
    on: BoundExpr | None = None
    unidirectional: bool = False


@dataclass(frozen=True, slots=True)
class StreamJoin(PlanNode):
    """Two and more streams: rows are combinations of one event of each, of outer joins with null for missing ones.

    Above it in the chain the stream of `expr.Prop` and `expr.EventOf` is the position in `inputs`.
    """

    inputs: tuple[JoinInput, ...]

    def key_requirement(
        self, where: Sequence[BoundExpr], keys: Sequence[BoundExpr] | None, context: KeyContext, expiry_shows: bool
    ) -> KeyRequirement:
        """The streams must be joined by equal keys, so that partners meet. `keys` are those of an aggregation."""
        names = [source_of(input_.stream).event_type for input_ in self.inputs]
        of_windows = [
            windows_key_requirement(context.windows_below(input_.stream), name, expiry_shows)
            for input_, name in zip(self.inputs, names, strict=True)
        ]
        refused = sum(of_windows, NO_REQUIREMENT).reason
        if refused:
            return KeyRequirement(reason=refused)
        conditions = [condition for input_ in self.inputs for condition in conjuncts(input_.on)]
        if all(input_.kind == "inner" for input_ in self.inputs):
            conditions += where
        groups = [
            [
                columns if need.columns is None else columns & need.columns
                for columns, need in zip(group, of_windows, strict=True)
            ]
            for group in equal_properties(conditions, len(names))
        ]
        if keys is not None:
            grouped = {(prop.stream, prop.name) for key in keys if (prop := key.key_property) is not None}
            sides = [{i for i, columns in enumerate(g) if any((i, c) in grouped for c in columns)} for g in groups]
            required = context.required_streams  # without an event of these all keys are null
            groups = [g for g, own in zip(groups, sides, strict=True) if all(own & streams for streams in required)]
        choices = (tuple(zip(names, group, strict=True)) for group in groups if all(group))
        return one_of(choices, "its streams are not all joined by equal keys that divide them")


RowSkip = Literal["past last row", "to next row", "to current row"]
CURRENT_ROW, MATCHED_ROWS = 0, 1  # the streams of the expressions of match_recognize


@dataclass(frozen=True, slots=True)
class RowDefinition(PlanNode):
    """A variable of match_recognize, and the condition that its rows meet (None: any row).

    With `many` a match may have several rows of it: its value is the array of them, null without any.
    """

    name: str
    many: bool
    condition: BoundExpr | None


@dataclass(frozen=True, slots=True)
class Recognition(PlanNode):
    """``match_recognize``: runs of rows that a regular expression of variables describes; each makes one event.

    The rows are those that enter `input` and pass `predicate`, in order, for each value of `keys` by itself. A row that
    leaves removes the incomplete matches that it is in. Events are of type `event_type`, with the `measures` as
    properties. In conditions stream `CURRENT_ROW` is the row that is tested and an `expr.Prior` one that came before it
    in the partition; stream `MATCHED_ROWS` has the rows matched so far, by variable, as it has those of a match in
    measures.

    Without an `interval` a match is emitted as soon as it is complete. With one it is emitted that long after its first
    row, with all rows that it has then; with `or_terminated` earlier, as soon as no further row can extend it. With
    `iterate_only` only the iterator shows matches.
    """

    input: Windowed | Derivation | SourceNode
    predicate: BoundExpr | None
    keys: tuple[BoundExpr, ...]
    variables: tuple[RowDefinition, ...]
    pattern: RowRegex
    measures: tuple[OutputColumn, ...]
    skip: RowSkip
    all_matches: bool
    interval: BoundExpr | None
    or_terminated: bool
    iterate_only: bool
    event_type: EventType

    def key_requirement(self, aggregated: bool) -> KeyRequirement:
        """The rows of each partition belong together, if nothing else ties partitions together."""
        if self.interval is not None:
            return KeyRequirement(reason="the intervals of its matches follow the clock of the whole stream")
        if windows_of(self.input):
            return KeyRequirement(reason="rows of all keys in its window, or of its context, make matches")
        if aggregated:
            return KeyRequirement(reason="its matches are aggregated together")
        keys, event_type = plain_key_properties(self.keys), source_of(self.input).event_type
        return equal_columns(event_type, keys, "its matches are in the rows of the whole stream")


@dataclass(frozen=True, slots=True)
class Selection(PlanNode):
    """The where-clause: with a window it tests entering and leaving events."""

    input: Recognition | Windowed | Derivation | SourceNode | StreamJoin
    predicate: BoundExpr


@dataclass(frozen=True, slots=True)
class AggregateCall(PlanNode):
    """One aggregate of `lang.registry.aggregates.AGGREGATES`.

    `args` are evaluated per event; no args for ``count(*)``, an `expr.EventOf` for ``first(*)``, ``window(*)``.
    `filter` counts an event only when true. `ever` marks min/max/first/last over an unbound stream (nothing ever
    leaves). `index` is the second parameter of ``first(x, i)``, ``last(x, i)``: 0-based from the first or last event,
    null beyond the window. `group_by` groups this call alone (local grouping; empty: over all events), None: by the
    statement's keys. `criteria` are the (expression, descending) of sorted, maxby and the like. Of a `reference` the
    value is what holds the events of ``sorted``, for its methods, and nothing else reads it. `options` are those of a
    count-min sketch.
    """

    name: str
    args: tuple[BoundExpr, ...]
    type: Type
    distinct: bool = False
    filter: BoundExpr | None = None
    ever: bool = False
    index: BoundExpr | None = None
    group_by: tuple[BoundExpr, ...] | None = None
    criteria: tuple[tuple[BoundExpr, bool], ...] = ()
    reference: bool = False
    options: tuple[tuple[str, float | int], ...] = ()

    @property
    def has_period(self) -> bool:
        """True if the aggregate is of the events of the last period (``rate``), not of those in the window."""
        return bool(self.args) and isinstance(self.args[-1], Period)

    @property
    def property_name(self) -> str:
        """The property that is aggregated; empty for ``count(*)`` and for calculated values."""
        return self.args[0].property_name if self.args else ""


@dataclass(frozen=True, slots=True)
class Aggregation(PlanNode):
    """`keys` are the group-by expressions (empty: one group). `calls` are numbered for `expr.AggregateRef`.

    With rollup, cube or grouping sets `levels` lists the grouping sets, in their order, as indexes of `keys`; rows of a
    level have null for the keys that it leaves out (`expr.KeyRef`, `expr.Grouping`).

    With `reclaim`, (age, frequency) in clock units from @Hint, a group that nothing touched for longer than the age is
    forgotten: this is looked for before an event enters its group, at most once in a while of the frequency.
    """

    input: Selection | Recognition | Windowed | Derivation | SourceNode | StreamJoin
    keys: tuple[BoundExpr, ...]
    calls: tuple[AggregateCall, ...]
    kind: QueryKind
    levels: tuple[tuple[int, ...], ...] = ()
    reclaim: tuple[BoundExpr, BoundExpr] | None = None

    @property
    def order_reason(self) -> str:
        """The reason why no key divides the groups; empty if one may."""
        if self.levels or any(call.group_by is not None for call in self.calls):
            return "it has several groupings"
        return "" if self.reclaim is None else RECLAIM_REASON

    def key_requirement(self, event_type: str, of_windows: KeyRequirement) -> KeyRequirement:
        """The events of a group belong together; `of_windows` is required of the events of the one stream."""
        if of_windows.reason:
            return of_windows
        if not self.keys:
            return KeyRequirement(reason="one aggregate over the events of all keys")
        keys, columns = plain_key_properties(self.keys), of_windows.columns
        shared = keys if columns is None else keys & columns
        reason = "no group-by key is a plain property that also divides the windows"
        return equal_columns(event_type, shared, reason)


@dataclass(frozen=True, slots=True)
class Having(PlanNode):
    """The having-clause: rows of which `predicate` is not true are not delivered."""

    input: Aggregation | Selection | Recognition | Windowed | Derivation | SourceNode | StreamJoin
    predicate: BoundExpr


@dataclass(frozen=True, slots=True)
class Projection(PlanNode):
    """Output rows. With `wildcard` the event's own properties come first, then `columns`.

    `distinct`, `order_by` (expression, descending), `offset` and `limit` (int constants; a negative limit is none)
    act in this order on the insert rows and the remove rows of one delivery apart, and on the iterator's rows.
    """

    input: Having | Aggregation | Selection | Recognition | Windowed | Derivation | SourceNode | StreamJoin
    columns: tuple[OutputColumn, ...]
    wildcard: bool = False
    distinct: bool = False
    order_by: tuple[tuple[BoundExpr, bool], ...] = ()
    limit: BoundExpr | None = None
    offset: BoundExpr | None = None

    @property
    def arranged(self) -> bool:
        """True if the rows of a delivery are sorted, made distinct or limited."""
        return self.distinct or any(self.arrangement)

    @property
    def arrangement(self) -> Iterator[tuple[str, tuple[tuple[BoundExpr, bool], ...]]]:
        """The clauses that sort and limit the rows, as they are written: the keyword, then (expression, descending)."""
        if self.order_by:
            yield "order by", self.order_by
        for keyword, count in (("limit", self.limit), ("offset", self.offset)):
            if count is not None:
                yield keyword, ((count, False),)

    @property
    def limits(self) -> list[tuple[str, tuple[tuple[BoundExpr, bool], ...]]]:
        """The clauses of the arrangement that leave out rows."""
        return [clause for clause in self.arrangement if clause[0] != "order by"]

    @property
    def row_keys(self) -> tuple[BoundExpr, ...]:
        """The expressions that a row is sorted by."""
        return tuple(e for e, _ in self.order_by)

    @property
    def row_expressions(self) -> tuple[BoundExpr, ...]:
        """The expressions of a row: those of its columns, and its keys."""
        return (*(column.value for column in self.columns), *self.row_keys)


# What may stand below each clause of the chain
StreamNode = Windowed | Derivation | SourceNode
FromNode = StreamNode | StreamJoin | Recognition
SelectionNode = Selection | FromNode
AggregationNode = Aggregation | SelectionNode
HavingNode = Having | AggregationNode
RowNode = Projection | HavingNode
Stage = TypeVar("Stage", bound=PlanNode)


def chain(root: RowNode) -> Iterator[RowNode]:
    """Yield `root` and the nodes below it, down to the `SourceNode` or `StreamJoin`."""
    node: RowNode = root
    yield node
    while not isinstance(node, (SourceNode, StreamJoin)):
        node = node.input
        yield node


def stages(root: RowNode, kind: type[Stage]) -> list[Stage]:
    """Return the nodes of a class in the chain of `root`, from the top."""
    return [node for node in chain(root) if isinstance(node, kind)]


def stage(root: RowNode, kind: type[Stage]) -> Stage | None:
    """Return the topmost node of a class in the chain of `root`; None if there is none."""
    return next(iter(stages(root, kind)), None)


def windows_of(stream: StreamNode) -> list[WindowSpec]:
    """Return the data windows of a stream, first to last; windows over derived events come after those below them."""
    return [window for windowed in reversed(stages(stream, Windowed)) for window in windowed.windows]


def where_conjuncts(root: RowNode) -> list[BoundExpr]:
    """Return the conjuncts of the where-clauses in the chain of `root`."""
    return [conjunct for selection in stages(root, Selection) for conjunct in conjuncts(selection.predicate)]


def streams(root: RowNode) -> tuple[StreamNode, ...]:
    """Return the streams that `root` reads: one, or those of a join."""
    node = root
    while not isinstance(node, (Windowed, Derivation, SourceNode)):
        if isinstance(node, StreamJoin):
            return tuple(stream.stream for stream in node.inputs)
        node = node.input
    return (node,)


def source_of(stream: StreamNode) -> SourceNode:
    while not isinstance(stream, SourceNode):
        stream = stream.input
    return stream
