"""A rerun of a statement with shadows beside it that report the origin of its rows.

Shadows are statements like the target to which nobody else listens:

- one with hidden columns for the partition, the group keys and the events of each row,
- one for each window, and for the contents of each subquery,
- one for the combinations of a join that is aggregated,
- one for the rows before having and output.

A shadow that the engine refuses is left out; the explanation then says less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from cepbook.display import unused_name
from cepbook.engine.delivery.delta import Delta, Row
from cepbook.engine.inspection.evaluation import python_functions_called
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import CepbookError
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.references import expressions_in, stores_read, stores_written
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.types import BOOLEAN, INT, OBJECT
from cepbook.session.history.event_log import EventLog, LogEntry
from cepbook.session.history.rerun_statement import IdentitySink, StatementRerun
from cepbook.session.history.rerun_windows import rows_equal

_FIELDS = {of: {f.name for f in fields(of) if f.init} for of in (plan.SelectStatement, plan.OnSelectStatement)}
NEVER_BEFORE = -(1 << 63)  # an earlier time than any
PARTITION, EVENT, COUNTS = " partition", " event", " counts"  # names that no column of a user can have
ShadowStatement = tuple[RunningStatement, Callable[[Any], Row]]


class DeliveredRow(NamedTuple):
    """A row of a feed: the number of its delivery, the time, the side (insert or remove) and its place on that side."""

    number: int
    time: int
    insert: bool
    place: int
    row: Mapping[str, Any]


def matches_row(row: Row, like: Mapping[str, Any]) -> bool:
    """Return True if a row of a shadow, without its hidden columns, equals `like`."""
    return rows_equal({name: row.get(name) for name in like}, dict(like))


@dataclass(slots=True)
class StimulusResult:
    """Deliveries of the statement and of its shadows during one stimulus."""

    delivered: list[Delta] = field(default_factory=list)
    triggers_before: list[int] = field(
        default_factory=list
    )  # per delivery: the number of events that had reached the statement
    retained: list[Any] = field(default_factory=list)  # and the `RetainedRows`
    rows: list[Delta] = field(default_factory=list)
    unlimited: list[Delta] = field(default_factory=list)
    before_output: list[Delta] = field(default_factory=list)
    reached: list[Row] = field(default_factory=list)
    window_changes: dict[int, list[Delta]] = field(default_factory=dict)
    contained: dict[int, list[Row]] = field(default_factory=dict)  # contained events by stream
    contained_before_where: dict[int, list[Row]] = field(default_factory=dict)  # contained events before the last where
    joined: list[Delta] = field(default_factory=list)
    matches: list[Mapping[str, Any]] = field(default_factory=list)


class StimulusPlace(NamedTuple):
    """The place of a stimulus in a rerun: the number of its log entries; timers that fire as the clock moves to these
    come before them (`own` is False), in the order of their `time`.

    It is the same with and without shadows, whose own timers are further stimuli.
    """

    entries: int
    own: bool
    time: int

    @property
    def first_stop(self) -> StimulusPlace:
        """A place before those of all timers that fire ahead of the entries."""
        return StimulusPlace(self.entries, False, NEVER_BEFORE)


class PendingRows(NamedTuple):
    """Rows that a stimulus made, before any output clause."""

    place: StimulusPlace
    delta: Delta


class RowStimulus(NamedTuple):
    """The stimulus and the time at which a row was made."""

    place: StimulusPlace
    time: int


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event as the engine holds it, with its type and time."""

    event: Row
    type_name: str
    time: int


def event_column(stream: int) -> str:
    """Return the name of the hidden column with the event of a stream."""
    return f"{EVENT}{stream}"


def key_column(number: int) -> str:
    """Return the name of the hidden column with a group key."""
    return f" key{number}"


def called_functions(statements: Sequence[object]) -> tuple[str, ...]:
    """Return the Python functions that statements call."""
    names = [name for expression in expressions_in(tuple(statements)) for name in python_functions_called(expression)]
    return tuple(dict.fromkeys(names))


class ProvenanceRerun(StatementRerun):
    """A rerun whose `result` holds the deliveries of the last stimulus. `sent_events` are the sent events by identity.

    `select` is the target if it is a select statement. `windows` are its shadows by stream; subqueries follow the
    streams. The stimulus at `leap`, a clock stop, is split: the clock stops at every due time on the way. `place` is
    that of the present stimulus.
    """

    target: plan.StreamStatement | plan.CreateVariableStatement

    def __init__(
        self,
        runtime: Runtime,
        event_log: EventLog,
        target: plan.StreamStatement | plan.CreateVariableStatement,
        *,
        shadows: bool,
        leap: StimulusPlace | None = None,
    ) -> None:
        super().__init__(runtime, event_log, target)
        self.select = self.target if isinstance(self.target, plan.SelectStatement) else None
        self.result = StimulusResult()
        self.count = 0  # deliveries so far
        self._muted = False
        self.sent_events: dict[int, SentEvent] = {}
        self.on_delivery: Callable[[ProvenanceRerun], Any] | None = None  # called at each delivery
        self.place = StimulusPlace(-1, own=True, time=0)
        self._waiting: list[PendingRows] = []  # rows that the output clause holds back
        self.released: list[PendingRows] = []  # rows that it released with the last delivery
        self._delivering: set[object] = set()  # partitions with rows in the current delivery
        self.unwindowed: list[Row] = []  # all rows of the shadow of a stream without windows
        self.last_batches: dict[tuple[int, Any], list[Row]] = {}  # last released batch by stream and partition
        self.windows: dict[int, ShadowStatement] = {}
        self.combinations: ShadowStatement | None = None
        self.aggregation, self.derived = self.target.aggregation, self.target.derived
        self.having = self.target.having
        self.conditions = x.conjuncts(None if self.having is None else self.having.predicate)
        self._shadows = shadows
        self._leap = leap

    @property
    def calls(self) -> tuple[str, ...]:
        """The Python functions that the target and its dependencies call."""
        line = self._pipeline
        return called_functions((*line.readers, *line.contexts, *line.stores))

    def stimuli(self) -> Iterator[list[LogEntry]]:
        """Yield the stimuli. Timers that fire before an event, as the clock moves to it, are stimuli of their own."""
        for number, log_entries in enumerate(super().stimuli()):
            first = log_entries[0]
            if first.type_name is not None and self.runtime.now < first.time:
                yield from self._clock_stops(number, first.time, stepping=first.stepping)
            self.place = StimulusPlace(number, own=True, time=first.time)
            yield log_entries

    def all_stimuli(self) -> Iterator[list[LogEntry]]:
        """Yield the stimuli and a last stop of the clock at the present."""
        for log_entries in self._to_now():
            place = self.place
            if place == self._leap:
                yield from self._clock_stops(place.entries, log_entries[0].time - 1, stepping=True)
                self.place = place
            yield log_entries

    def _clock_stops(self, entries: int, until: int, *, stepping: bool) -> Iterator[list[LogEntry]]:
        """Yield the stops of the clock before log entry `entries` if timers are due at `until` or before.

        With `stepping` the clock stops at every due time, otherwise once, at `until`.
        """
        due = self.runtime.next_due
        while due is not None and due <= until:
            stop = max(due, self.runtime.now) if stepping else until
            self.place = StimulusPlace(entries, own=False, time=stop)
            yield [LogEntry((0, 0), stop)]
            due = self.runtime.due_after(stop)

    def stimuli_from(self, place: StimulusPlace) -> Iterator[list[LogEntry]]:
        """Yield the stimuli from `place` on. Those before are played silently."""
        for log_entries in self.all_stimuli():
            if self.place < place:
                self.play_silently(log_entries)
            else:
                yield log_entries

    def _to_now(self) -> Iterator[list[LogEntry]]:
        yield from self.stimuli()
        if self._origin.now > self.runtime.now:
            self.place = self._place_of_now
            yield [LogEntry((0, 0), self._origin.now)]

    @property
    def _place_of_now(self) -> StimulusPlace:
        return StimulusPlace(self.place.entries + 1, own=True, time=self._origin.now)

    def is_clock_leap(self, log_entries: list[LogEntry]) -> bool:
        """Return True if the entries are a clock stop that passes a due time."""
        first, due = log_entries[0], self.runtime.next_due
        alone = (
            first.type_name is None and first.variable is None and first.manual_action is None and not first.stepping
        )
        return alone and due is not None and due < first.time

    def play(self, log_entries: list[LogEntry]) -> None:
        self.result = StimulusResult()
        super().play(log_entries)

    def play_silently(self, log_entries: list[LogEntry]) -> None:
        """Play the entries without a result: most of the log precedes the question."""
        self._muted = True
        try:
            super().play(log_entries)
        finally:
            self._muted = False

    def advance_to_now(self) -> None:
        self.place = self._place_of_now
        self.result = StimulusResult()
        super().advance_to_now()

    def before_event(self, type_name: str, event: Row, time: int) -> None:
        self.sent_events[id(event)] = SentEvent(event, type_name, time)

    def _deploy_target(self) -> None:
        if self._shadows:
            self._deploy_shadows()
        target = self._deploy(self.target)
        assert target is not None
        target.add_sink(IdentitySink(target.outlet.layout, self._delivered, lambda: self._muted, self._passed))
        target.add_match_listener(self._matched)

    def _matched(self, match: Mapping[str, Any]) -> None:
        if not self._muted:
            self.result.matches.append(match)

    def _passed(self, deliveries: int) -> None:
        self.count += deliveries
        self._release()

    def _unlimited(self, delta: Delta) -> None:
        self.result.unlimited.append(delta)
        self._waiting.append(PendingRows(self.place, delta))

    def shows_former_state(self, at: DeliveredRow) -> bool:
        """Return True if the row shows the state before the stimulus: a remove row, or a row of ``rstream``.

        Rows of an output snapshot show the present state whatever the selector.
        """
        select = self.select
        snapshot = select is not None and select.output is not None and select.output.which == "snapshot"
        return not at.insert or (select is not None and select.selector == "rstream" and not snapshot)

    def earlier_origin(self, at: DeliveredRow, shadow: Row | None) -> RowStimulus | None:
        """Return the origin of a row of the last delivery if an output clause held the row back; else None.

        `shadow` is the row with hidden columns. None also for a row that ``output all`` and the like repeat.
        """
        output = None if self.select is None else self.select.output
        if output is None or output.which in ("snapshot", "first"):
            return None
        pairs: list[tuple[RowStimulus, Row]] = []
        for place, delta in self.released:
            rows = (delta.insert if at.insert else delta.remove) or ()
            pairs += [(RowStimulus(place, delta.time), row) for row in rows]
        matching = [matches_row(row, at.row) and (shadow is None or self._same_group(row, shadow)) for _, row in pairs]
        if len(pairs) > at.place and matching[at.place]:
            origin: RowStimulus | None = pairs[at.place][0]
        else:
            origins = [row_origin for (row_origin, _), fit in zip(pairs, matching, strict=True) if fit]
            if self.shows_former_state(at) and self._fully:  # the row of the group before the interval
                origins.reverse()
            origin = origins[-1] if origins else None
        return None if origin is None or origin.place == self.place else origin

    @property
    def _fully(self) -> bool:
        return self.aggregation is not None and self.aggregation.kind.startswith("fully")

    def _same_group(self, one: Row, other: Row) -> bool:
        """Return True if rows with hidden columns belong to the same group and partition."""
        keys = () if self.aggregation is None else self.aggregation.keys
        return all(one.get(n) == other.get(n) for n in (PARTITION, *(key_column(i) for i in range(len(keys)))))

    def repeats_row(self, shadow: Row) -> bool:
        """Return True if the output clause repeats the row of a group that has not changed since the last delivery."""
        output = None if self.select is None else self.select.output
        if output is None or output.which in ("snapshot", "first") or self.having is not None or not self._fully:
            return False
        rows = [row for _, delta in self.released for row in (*(delta.insert or ()), *(delta.remove or ()))]
        return not any(self._same_group(row, shadow) for row in rows)

    def _limited(self, delta: Delta) -> None:
        if not self._muted:
            self.result.rows.append(delta)
        self._delivering |= {row.get(PARTITION) for row in (*(delta.insert or ()), *(delta.remove or ()))}

    def _release(self) -> list[PendingRows]:
        """Return the pending rows of the partitions of this delivery. Each partition has its own output clause."""
        if self.target.context is None:
            released, self._waiting = self._waiting, []
            return released
        partitions, self._delivering = self._delivering, set()
        released, rest = [], []
        for pending in self._waiting:
            ids = {row.get(PARTITION) for row in (*(pending.delta.insert or ()), *(pending.delta.remove or ()))}
            if ids & partitions:
                released.append(pending)
            if ids - partitions:
                rest.append(pending)
        self._waiting = rest
        return released

    def _delivered(self, delta: Delta) -> None:
        self.count += 1
        self.released = self._release()
        self.result.retained.append(None if self.on_delivery is None else self.on_delivery(self))
        self.result.delivered.append(delta)
        self.result.triggers_before.append(len(self.result.reached))

    def _deploy_shadows(self) -> None:
        target = self.target
        if self.select is None and (target.trigger is None or target.trigger.pattern is not None):
            return
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))
        partition = (plan.OutputColumn(PARTITION, x.ContextProp(INT, "id")),) if target.context is not None else ()
        if self.select is None:
            if target.trigger is not None:
                self._attach("reached", self._like(plan.Projection(target.trigger, (*partition, event))), self._reached)
            return
        for type_name in dict.fromkeys(n for source in self.select.sources for n in source.event_types if n):
            came = plan.Projection(plan.SourceNode(type_name, None, None), (*partition, event))
            self._attach("reached", self._like(came), self._reached)
        self._deploy_shadows_of(self.select, partition)

    def _deploy_shadows_of(self, target: plan.SelectStatement, partition: tuple[plan.OutputColumn, ...]) -> None:
        root = target.root
        keys = () if self.aggregation is None else self.aggregation.keys
        grouped = target.kind.startswith("fully")  # an ungrouped row has the key of its event
        shown_keys = (x.KeyRef(key.type, i) if grouped else key for i, key in enumerate(keys))
        extra = (*partition, *(plan.OutputColumn(key_column(i), key) for i, key in enumerate(shown_keys)))
        events = tuple(plan.OutputColumn(event_column(i), x.EventOf(OBJECT, i)) for i in range(len(target.sources)))
        options: dict[str, Any] = {"kind": target.kind, "selector": target.selector, "subqueries": target.subqueries}
        several = (events, ()) if target.kind in ("unaggregated", "aggregated", "aggregated_grouped") else ((),)
        if target.created_store is None:
            for columns in several:
                projection = replace(root, columns=(*root.columns, *extra, *columns), distinct=False)
                shadow = self._like(projection, **options)
                limited = replace(shadow, output=target.output)
                several_clauses = target.output is not None and target.context is not None
                if self._attach("rows", limited, self._limited, always=several_clauses) is not None:
                    if target.output is not None:
                        self._attach("unlimited", shadow, self._unlimited, always=True)
                    break
        for number, stream in enumerate(plan.streams(root)):
            self._attach_within(number, plan.source_of(stream), partition)
            self._attach_window(number, stream, partition)
        for number, subquery in enumerate(target.subqueries, len(target.sources)):
            self._attach_window(number, plan.streams(subquery.root)[0], partition)
        if self.aggregation is not None and target.join is not None:
            written = (plan.OutputColumn(key_column(i), key) for i, key in enumerate(keys))
            shadow = self._like(plan.Projection(self.aggregation.input, (*partition, *written, *events)), **options)
            shadow = replace(shadow, kind="unaggregated", selector="istream")
            statement = self._attach("combined", shadow, lambda delta: self.result.joined.append(delta))
            if statement is not None:
                self.combinations = statement, statement.outlet.layout.event
        if target.into is None and (self.conditions or target.output is not None or target.root.limits):
            self._attach_before_output(target.root, extra, options)

    def _attach_within(self, number: int, source: plan.SourceNode, partition: tuple[plan.OutputColumn, ...]) -> None:
        if not source.contained:
            return
        *outer, last = source.contained
        every = replace(source, contained=(*outer, replace(last, columns=(), wildcard=True, where=None)))
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))
        for name, node_ in (("contained", source), ("contained_before_where", every)):

            def noted(delta: Delta, name: str = name) -> None:
                getattr(self.result, name).setdefault(number, []).extend(delta.insert or ())

            self._attach(f"{name}{number}", self._like(plan.Projection(node_, (*partition, event))), noted)

    def _attach_window(self, number: int, stream: plan.StreamNode, partition: tuple[plan.OutputColumn, ...]) -> None:
        windowed = plan.stages(stream, plan.Windowed)
        source = plan.source_of(stream)
        below: plan.StreamNode = windowed[-1] if windowed else source
        assert self.select is not None
        inner = number >= len(self.select.sources)
        if not windowed:
            made_of_all = self.aggregation is not None or self.derived is not None
            if source.pattern is not None or source.without_from or inner or not made_of_all:
                return
        own = not inner and self.derived is None and self.select.join is None
        facts = []
        if own and self.aggregation is not None:
            facts = [plan.OutputColumn(key_column(i), key) for i, key in enumerate(self.aggregation.keys)]
            where = plan.stage(self.select.root, plan.Selection)
            facts += [] if where is None else [plan.OutputColumn(COUNTS, where.predicate)]
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))

        def moved(delta: Delta) -> None:
            if not self._muted:
                self.result.window_changes.setdefault(number, []).append(delta)
            if not windowed:
                self.unwindowed.extend(delta.insert or ())
            elif self.batched:
                fresh = {row.get(PARTITION): list[Row]() for row in (*(delta.remove or ()), *(delta.insert or ()))}
                for row in delta.insert or ():
                    fresh[row.get(PARTITION)].append(row)
                self.last_batches |= {(number, of): rows for of, rows in fresh.items()}

        asked = {"selector": "irstream", "subqueries": self.select.subqueries}
        for columns in ((event, *partition, *facts), (event, *partition)):
            shadow = self._like(plan.Projection(below, columns), **asked)
            statement = self._attach(f"window{number}", shadow, moved, always=not windowed or self.batched)
            if statement is not None:
                if windowed or source.store is not None:
                    self.windows[number] = statement, statement.outlet.layout.event
                return

    def _attach_before_output(
        self, root: plan.Projection, hidden: tuple[plan.OutputColumn, ...], alike: Mapping[str, Any]
    ) -> None:
        below = root.input if self.having is None else self.having.input
        leaves = {}
        for number, condition in enumerate(self.conditions):
            leaves[f"c{number}"] = condition
            for place, leaf in enumerate(compared_leaves(condition)):
                leaves[f"v{number}_{place}"] = leaf
        columns = tuple(plan.OutputColumn(name, value) for name, value in leaves.items())
        marker = () if columns else (plan.OutputColumn("c", x.Const(BOOLEAN, True)),)
        for columns_ in ((*columns, *marker, *hidden), (*columns, *marker)):
            shadow = self._like(plan.Projection(below, columns_), **alike)
            if self._attach("before", shadow, lambda delta: self.result.before_output.append(delta)) is not None:
                return

    def _like(self, root: plan.Projection, **changes: Any) -> plan.SelectStatement:
        target = self.target
        looks = target.lookup is not None and plan.stage(root, plan.StreamJoin) is not None
        plain = plan.OnSelectStatement if looks else plan.SelectStatement
        fields_ = {
            plan_field.name: getattr(target, plan_field.name)
            for plan_field in fields(plain)
            if hasattr(target, plan_field.name)
        }
        fields_ |= {"named": True, "root": root, "kind": "unaggregated", "selector": "istream", "subqueries": ()}
        fields_ |= {"insert": None, "output": None, "drop": False, "into": None, "deletes": False, "delivery_key": None}
        return plain(**{name: value for name, value in {**fields_, **changes}.items() if name in _FIELDS[plain]})

    def _attach(
        self, name: str, shadow: plan.SelectStatement, listener: Callable[[Delta], None], *, always: bool = False
    ) -> RunningStatement | None:
        names = {s.name for s in self._pipeline.readers} | set(self.runtime.statements)
        try:
            statement = self._deploy(replace(shadow, name=unused_name(name, names)))
        except CepbookError:
            return None
        assert statement is not None
        statement.add_sink(IdentitySink(statement.outlet.layout, listener, lambda: self._muted and not always))
        return statement

    def _reached(self, delta: Delta) -> None:
        self.result.reached.extend(delta.insert or ())

    @property
    def batched(self) -> bool:
        """True if rows are made from whole batches."""
        windows = () if self.select is None else self.select.windows
        return any(WINDOWS[w.name].batch for w in windows if w.name in WINDOWS)

    def window_rows(self, number: int) -> list[Row] | None:
        """Return the contents of a stream's window as rows of its shadow; None if there is no shadow."""
        if number not in self.windows:
            return None
        return self._iterated(self.windows[number])

    def joined_rows(self) -> list[Row] | None:
        """Return the current combinations of an aggregated join; None if they are unknown."""
        return None if self.combinations is None else self._iterated(self.combinations)

    def _iterated(self, shadow: ShadowStatement) -> list[Row]:
        """Return the rows of a shadow statement now. Raises StatementError if an expression fails on one of them."""
        statement, event = shadow
        try:
            return [event(row) for _, rows in statement.iterated(self.runtime.now) for row in rows]
        except Exception as failure:
            raise statement.error(failure) from failure

    def cycle_rows(self) -> list[list[Row]]:
        """Return the events that the partitions of a cycle query hold or have just released."""
        target = self.target
        if not isinstance(target, plan.CycleStatement) or target.name not in self.runtime.statements:
            return []
        cycle_state = self.runtime.statement(target.name).state.view
        return [cycle_state.events(number, target) for number in range(len(target.partitions))]

    def store_rows(self) -> dict[str, list[Row]]:
        """Return the rows of the named windows and tables that the target reads or changes."""
        names = stores_read(self.target) | stores_written(self.target, self.runtime.catalog)
        rows_by_store = {}
        for name in sorted(names & self.runtime.stores.keys()):
            owner: Any = self.runtime.stores[name].owner
            rows_by_store[name] = self._iterated((owner, owner.outlet.layout.event))
        return rows_by_store


def compared_leaves(e: x.BoundExpr) -> list[x.BoundExpr]:
    """Return the properties, variables, aggregates and the like that an expression compares, each once."""
    leaves: dict[x.BoundExpr, None] = {}
    open_ = [e]
    while open_:
        expression = open_.pop()
        if isinstance(expression, _LEAVES) or (
            isinstance(expression, x.MemberAccess) and not isinstance(expression.target, x.MethodCall)
        ):
            leaves[expression] = None
        elif not isinstance(expression, x.LambdaExpr):
            open_.extend(reversed(x.children(expression)))
    return list(leaves)


def compared_properties(e: x.BoundExpr, stream: int) -> list[x.BoundExpr]:
    """Return the properties of a stream that an expression compares, each once."""
    return [leaf for leaf in compared_leaves(e) if leaf.property_of(stream)]


_LEAVES = (
    x.Prop, x.EventTypeName, x.VariableRead, x.AggregateRef, x.KeyRef, x.ContextProp, x.SubqueryRef, x.TableRead,
    x.Prev, x.Prior,
)  # fmt: skip
