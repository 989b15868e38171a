"""A statement that runs again over the known events, with shadows beside it that tell what its rows are made of.

Shadows are statements like the target that nobody else hears of: one with hidden columns for the partition, the keys of
the group and the events of each row, one for each window and what a subquery holds, one for the combinations of a join
that is aggregated, one of rows before having and output. What cannot have such a shadow goes without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

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
from cepbook.session.io.result_frames import unused_name

_FIELDS = {of: {each.name for each in fields(of)} for of in (plan.SelectStatement, plan.OnSelectStatement)}
PARTITION, EVENT, COUNTS = " partition", " event", " counts"  # columns that no column of a user can be called
ShadowStatement = tuple[RunningStatement, Callable[[Any], Row]]


class DeliveredRow(NamedTuple):
    """A row of a feed: the number of its delivery, its time, its side and its place there."""

    number: int
    time: int
    insert: bool
    place: int
    row: Mapping[str, Any]


def matches_row(row: Row, like: Mapping[str, Any]) -> bool:
    """Whether a row of a shadow, without its hidden columns, is this one."""
    return rows_equal({name: row.get(name) for name in like}, dict(like))


@dataclass(slots=True)
class StimulusResult:
    """What the statement and its shadows told of during one stimulus: (insert, remove) rows of each delivery."""

    delivered: list[Delta] = field(default_factory=list)
    set_off: list[int] = field(default_factory=list)  # for each delivery how many events had reached the statement,
    held: list[Any] = field(default_factory=list)  # and what was held (`made.Held`)
    rows: list[Delta] = field(default_factory=list)
    unlimited: list[Delta] = field(default_factory=list)
    before_output: list[Delta] = field(default_factory=list)
    reached: list[Row] = field(default_factory=list)
    moved: dict[int, list[Delta]] = field(default_factory=dict)
    within: dict[int, list[Row]] = field(default_factory=dict)  # by stream, events within events: what it is shown
    inside: dict[int, list[Row]] = field(default_factory=dict)  # and what there was before its last where
    combined: list[Delta] = field(default_factory=list)
    matches: list[Mapping[str, Any]] = field(default_factory=list)


class PendingRows(NamedTuple):
    """Rows that were made by stimulus `number`, before any output clause."""

    number: int
    delta: Delta


class RowProvenance(NamedTuple):
    """When a row was made: the stimulus, the time."""

    number: int
    time: int


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event that was sent, as the engine has it, and when."""

    event: Row
    type_name: str
    time: int


def event_column(stream: int) -> str:
    """The hidden column of the event of a stream."""
    return f"{EVENT}{stream}"


def key_column(number: int) -> str:
    """The hidden column of a key of the group."""
    return f" key{number}"


def called_functions(statements: Sequence[object]) -> tuple[str, ...]:
    """The Python functions that statements call."""
    found = [name for each in expressions_in(tuple(statements)) for name in python_functions_called(each)]
    return tuple(dict.fromkeys(found))


class ProvenanceRerun(StatementRerun):
    """`told` is what came of the last stimulus. `sent` are the events that were sent, by identity.

    `select` is the target where it is one, `windows` its shadows by stream; behind the streams come the subqueries.
    In place of the stimulus of number `leap`, a stop of the clock, it stops whenever something is due until then.
    """

    target: plan.StreamStatement | plan.CreateVariableStatement

    def __init__(
        self,
        runtime: Runtime,
        record: EventLog,
        target: plan.StreamStatement | plan.CreateVariableStatement,
        *,
        shadows: bool,
        leap: int | None = None,
    ) -> None:
        super().__init__(runtime, record, target)
        self.select = target if isinstance(target, plan.SelectStatement) else None
        self.told = StimulusResult()
        self.count = 0  # deliveries so far
        self._muted = False
        self.sent: dict[int, SentEvent] = {}
        self.look: Callable[[ProvenanceRerun], Any] | None = None  # looks at what is held, at each delivery
        self._number = -1  # of the present stimulus
        self._waiting: list[PendingRows] = []  # rows that the output clause holds back,
        self.released: list[PendingRows] = []  # and those that it let go with the last delivery
        self._delivering: set[object] = set()  # the partitions whose rows the delivery has that is under way
        self.unbound: list[Row] = []  # rows of the shadow of a stream without windows, all that came
        self.batches: dict[tuple[int, Any], list[Row]] = {}  # what was released last, by stream and partition
        self.windows: dict[int, ShadowStatement] = {}
        self.combinations: ShadowStatement | None = None
        nodes = () if self.select is None else tuple(plan.chain(self.select.root))
        self.aggregation = next((n for n in nodes if isinstance(n, plan.Aggregation)), None)
        self.having = next((n for n in nodes if isinstance(n, plan.Having)), None)
        self.derived = next((n for n in nodes if isinstance(n, plan.Derivation)), None)
        self.conditions = x.conjuncts(None if self.having is None else self.having.predicate)
        self._shadows = shadows
        self._leap = leap

    @property
    def calls(self) -> tuple[str, ...]:
        """The Python functions that are called by it."""
        line = self._line
        return called_functions((*line.readers, *line.contexts, *line.stores))

    def stimuli(self) -> Iterator[list[LogEntry]]:
        """As they came. What is due before an event comes, by the clock that goes to its time, is one of its own."""
        for log_entries in super().stimuli():
            first = log_entries[0]
            due = None if first.type_name is None else self.runtime.next_due
            while due is not None and self.runtime.now < first.time and due <= first.time:
                stop = max(due, self.runtime.now) if first.stepping else first.time
                yield [LogEntry((0, 0), stop)]
                due = self.runtime.due_after(stop)
            yield log_entries

    def course(self) -> Iterator[list[LogEntry]]:
        """The stimuli, and the clock as it stands now."""
        for number, log_entries in enumerate(self._to_now()):
            if number == self._leap:
                due = self.runtime.next_due
                while due is not None and due < log_entries[0].time:
                    stop = max(due, self.runtime.now)
                    yield [LogEntry((0, 0), stop)]
                    due = self.runtime.due_after(stop)
            yield log_entries

    def _to_now(self) -> Iterator[list[LogEntry]]:
        yield from self.stimuli()
        if self._origin.now > self.runtime.now:
            yield [LogEntry((0, 0), self._origin.now)]

    def leaps(self, log_entries: list[LogEntry]) -> bool:
        """Whether this is the clock, which goes beyond a time at which something is due."""
        first, due = log_entries[0], self.runtime.next_due
        alone = (
            first.type_name is None and first.variable is None and first.manual_action is None and not first.stepping
        )
        return alone and due is not None and due < first.time

    def let(self, log_entries: list[LogEntry]) -> None:
        self._number += 1
        self.told = StimulusResult()
        super().let(log_entries)

    def play_silently(self, log_entries: list[LogEntry]) -> None:
        """Let it happen, and tell of nothing: most of what happens comes before what is asked about."""
        self._number += 1
        self._muted = True
        try:
            super().let(log_entries)
        finally:
            self._muted = False

    def catch_up(self) -> None:
        self._number += 1
        self.told = StimulusResult()
        super().catch_up()

    def comes(self, type_name: str, event: Row, time: int) -> None:
        self.sent[id(event)] = SentEvent(event, type_name, time)

    # ---- shadows
    def _deploy_target(self) -> None:
        if self._shadows:
            self._deploy_shadows()
        target = self._deploy(self.target)
        assert target is not None
        target.add_sink(IdentitySink(target.outlet.layout, self._delivered, lambda: self._muted, self._passed))
        target.add_match_listener(self._matched)

    def _matched(self, match: Mapping[str, Any]) -> None:
        if not self._muted:
            self.told.matches.append(match)

    def _passed(self, deliveries: int) -> None:
        self.count += deliveries
        self._release()

    def _unlimited(self, delta: Delta) -> None:
        self.told.unlimited.append(delta)
        self._waiting.append(PendingRows(self._number, delta))

    def shows_former_state(self, at: DeliveredRow) -> bool:
        """Whether the row tells of what was there before the stimulus: a remove row, and what ``rstream`` delivers.

        Not so a snapshot, whatever the selector: its rows are of the present.
        """
        select = self.select
        snapshot = select is not None and select.output is not None and select.output.which == "snapshot"
        return not at.insert or (select is not None and select.selector == "rstream" and not snapshot)

    def made_earlier(self, at: DeliveredRow, shadow: Row | None) -> RowProvenance | None:
        """When a row of the last delivery was made, if that was earlier: an output clause held it back.

        `shadow` is the row with hidden columns. None as well for a row that ``output all`` and the like have again.
        """
        output = None if self.select is None else self.select.output
        if output is None or output.which in ("snapshot", "first"):
            return None
        found: list[tuple[RowProvenance, Row]] = []
        for number, delta in self.released:
            rows = (delta.insert if at.insert else delta.remove) or ()
            found += [(RowProvenance(number, delta.time), row) for row in rows]
        fits = [matches_row(row, at.row) and (shadow is None or self._same_group(row, shadow)) for _, row in found]
        if len(found) > at.place and fits[at.place]:
            origin: RowProvenance | None = found[at.place][0]
        else:
            origins = [each for (each, _), fit in zip(found, fits, strict=True) if fit]
            if self.shows_former_state(at) and self._fully:  # the row of the group before the interval
                origins.reverse()
            origin = origins[-1] if origins else None
        return None if origin is None or origin.number == self._number else origin

    @property
    def _fully(self) -> bool:
        """Whether rows stand for groups."""
        return self.aggregation is not None and self.aggregation.kind.startswith("fully")

    def _same_group(self, one: Row, other: Row) -> bool:
        """Whether rows with hidden columns are of the same group and partition."""
        keys = () if self.aggregation is None else self.aggregation.keys
        return all(one.get(n) == other.get(n) for n in (PARTITION, *(key_column(i) for i in range(len(keys)))))

    def has_again(self, shadow: Row) -> bool:
        """Whether the output clause has the row of a group again, which has not changed since the delivery before."""
        output = None if self.select is None else self.select.output
        if output is None or output.which in ("snapshot", "first") or self.having is not None or not self._fully:
            return False
        rows = [row for _, delta in self.released for row in (*(delta.insert or ()), *(delta.remove or ()))]
        return not any(self._same_group(row, shadow) for row in rows)

    def _limited(self, delta: Delta) -> None:
        if not self._muted:
            self.told.rows.append(delta)
        self._delivering |= {row.get(PARTITION) for row in (*(delta.insert or ()), *(delta.remove or ()))}

    def _release(self) -> list[PendingRows]:
        """What waited, of the partitions of the delivery: each has its own output clause."""
        if self.target.context is None:
            found, self._waiting = self._waiting, []
            return found
        parts, self._delivering = self._delivering, set()
        found, rest = [], []
        for each in self._waiting:
            of = {row.get(PARTITION) for row in (*(each.delta.insert or ()), *(each.delta.remove or ()))}
            if of & parts:
                found.append(each)
            if of - parts:
                rest.append(each)
        self._waiting = rest
        return found

    def _delivered(self, delta: Delta) -> None:
        self.count += 1
        self.released = self._release()
        self.told.held.append(None if self.look is None else self.look(self))
        self.told.delivered.append(delta)
        self.told.set_off.append(len(self.told.reached))

    def _deploy_shadows(self) -> None:
        target = self.target
        if isinstance(target, plan.CreateVariableStatement | plan.CycleStatement):
            return
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))
        partition = (plan.OutputColumn(PARTITION, x.ContextProp(INT, "id")),) if target.context is not None else ()
        if self.select is None:
            if target.source.pattern is None:
                self._attach("reached", self._like(plan.Projection(target.source, (*partition, event))), self._reached)
            return
        for type_name in dict.fromkeys(n for source in self.select.sources for n in source.event_types if n):
            came = plan.Projection(plan.SourceNode(type_name, None, None), (*partition, event))
            self._attach("reached", self._like(came), self._reached)
        self._deploy_shadows_of(self.select, partition)

    def _deploy_shadows_of(self, target: plan.SelectStatement, partition: tuple[plan.OutputColumn, ...]) -> None:
        root = target.root
        keys = () if self.aggregation is None else self.aggregation.keys
        grouped = target.kind.startswith("fully")  # a row of an event has the key of that event
        shown_keys = (x.KeyRef(key.type, i) if grouped else key for i, key in enumerate(keys))
        extra = (*partition, *(plan.OutputColumn(key_column(i), key) for i, key in enumerate(shown_keys)))
        events = tuple(plan.OutputColumn(event_column(i), x.EventOf(OBJECT, i)) for i in range(len(target.sources)))
        alike: dict[str, Any] = {"kind": target.kind, "selector": target.selector, "subqueries": target.subqueries}
        several = (events, ()) if target.kind in ("unaggregated", "aggregated", "aggregated_grouped") else ((),)
        if not isinstance(target, plan.CreateWindowStatement):
            for columns in several:
                shown = replace(root, columns=(*root.columns, *extra, *columns), distinct=False)
                made = self._like(shown, **alike)
                limited = replace(made, output=target.output)
                several_clauses = target.output is not None and target.context is not None
                if self._attach("rows", limited, self._limited, always=several_clauses) is not None:
                    if target.output is not None:
                        self._attach("unlimited", made, self._unlimited, always=True)
                    break
        for number, stream in enumerate(plan.streams(root)):
            self._attach_within(number, plan.source_of(stream), partition)
            self._attach_window(number, stream, partition)
        for number, each in enumerate(target.subqueries, len(target.sources)):
            self._attach_window(number, plan.streams(each.root)[0], partition)
        if self.aggregation is not None and target.join is not None:
            written = (plan.OutputColumn(key_column(i), key) for i, key in enumerate(keys))
            made = self._like(plan.Projection(self.aggregation.input, (*partition, *written, *events)), **alike)
            made = replace(made, kind="unaggregated", selector="istream")
            statement = self._attach("combined", made, lambda delta: self.told.combined.append(delta))
            if statement is not None:
                self.combinations = statement, statement.outlet.layout.event
        if target.into is None and (self.conditions or target.output is not None):
            self._attach_before_output(target.root, extra, alike)

    def _attach_within(self, number: int, source: plan.SourceNode, partition: tuple[plan.OutputColumn, ...]) -> None:
        """Shadows of the events within events that a stream is made of."""
        if not source.contained:
            return
        *outer, last = source.contained
        every = replace(source, contained=(*outer, replace(last, columns=(), wildcard=True, where=None)))
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))
        for name, shown in (("within", source), ("inside", every)):

            def noted(delta: Delta, name: str = name) -> None:
                getattr(self.told, name).setdefault(number, []).extend(delta.insert or ())

            self._attach(f"{name}{number}", self._like(plan.Projection(shown, (*partition, event))), noted)

    def _attach_window(self, number: int, stream: plan.StreamNode, partition: tuple[plan.OutputColumn, ...]) -> None:
        """A shadow of what a window holds; of a stream without one all that came."""
        held = [node for node in plan.chain(stream) if isinstance(node, plan.Windowed)]
        source = plan.source_of(stream)
        below: plan.StreamNode = held[-1] if held else source
        assert self.select is not None
        inner = number >= len(self.select.sources)
        if isinstance(below, plan.SourceNode):
            made_of_all = self.aggregation is not None or self.derived is not None
            if below.pattern is not None or below.nothing or inner or not made_of_all:
                return
        own = not inner and self.derived is None and self.select.join is None
        facts = []
        if own and self.aggregation is not None:
            facts = [plan.OutputColumn(key_column(i), key) for i, key in enumerate(self.aggregation.keys)]
            where = next((n for n in plan.chain(self.select.root) if isinstance(n, plan.Selection)), None)
            facts += [] if where is None else [plan.OutputColumn(COUNTS, where.predicate)]
        event = plan.OutputColumn(EVENT, x.EventOf(OBJECT, 0))

        def moved(delta: Delta) -> None:
            if not self._muted:
                self.told.moved.setdefault(number, []).append(delta)
            if not held:
                self.unbound.extend(delta.insert or ())
            elif self.batched:
                fresh = {row.get(PARTITION): list[Row]() for row in (*(delta.remove or ()), *(delta.insert or ()))}
                for row in delta.insert or ():
                    fresh[row.get(PARTITION)].append(row)
                self.batches |= {(number, of): rows for of, rows in fresh.items()}

        asked = {"selector": "irstream", "subqueries": self.select.subqueries}
        for columns in ((event, *partition, *facts), (event, *partition)):
            shadow = self._like(plan.Projection(below, columns), **asked)
            statement = self._attach(f"window{number}", shadow, moved, always=not held or self.batched)
            if statement is not None:
                if held or source.store is not None:
                    self.windows[number] = statement, statement.outlet.layout.event
                return

    def _attach_before_output(
        self, root: plan.Projection, extra: tuple[plan.OutputColumn, ...], alike: Mapping[str, Any]
    ) -> None:
        """A shadow of the rows that having and the output clause are shown, with what each condition says of them."""
        below = root.input if self.having is None else self.having.input
        leaves = {}
        for number, condition in enumerate(self.conditions):
            leaves[f"c{number}"] = condition
            for place, leaf in enumerate(compared_leaves(condition)):
                leaves[f"v{number}_{place}"] = leaf
        columns = tuple(plan.OutputColumn(name, value) for name, value in leaves.items())
        marker = () if columns else (plan.OutputColumn("c", x.Const(BOOLEAN, True)),)
        for shown in ((*columns, *marker, *extra), (*columns, *marker)):
            made = self._like(plan.Projection(below, shown), **alike)
            if self._attach("before", made, lambda delta: self.told.before_output.append(delta)) is not None:
                return

    def _like(self, root: plan.Projection, **changes: Any) -> plan.SelectStatement:
        """A statement beside the target, with its context and place among the others; it changes nothing."""
        target = self.target
        looks = isinstance(target, plan.OnSelectStatement) and any(
            isinstance(n, plan.StreamJoin) for n in plan.chain(root)
        )
        plain = plan.OnSelectStatement if looks else plan.SelectStatement
        known = {each.name: getattr(target, each.name) for each in fields(plain) if hasattr(target, each.name)}
        known |= {"named": True, "root": root, "kind": "unaggregated", "selector": "istream", "subqueries": ()}
        known |= {"insert": None, "output": None, "drop": False, "into": None, "deletes": False, "parcels": None}
        return plain(**{name: value for name, value in {**known, **changes}.items() if name in _FIELDS[plain]})

    def _attach(
        self, name: str, shadow: plan.SelectStatement, listener: Callable[[Delta], None], *, always: bool = False
    ) -> RunningStatement | None:
        """Deploy a shadow and listen to it; None where the engine refuses it."""
        names = {s.name for s in self._line.readers} | set(self.runtime.statements)
        try:
            statement = self._deploy(replace(shadow, name=unused_name(name, names)))
        except CepbookError:
            return None
        assert statement is not None
        statement.add_sink(IdentitySink(statement.outlet.layout, listener, lambda: self._muted and not always))
        return statement

    def _reached(self, delta: Delta) -> None:
        self.told.reached.extend(delta.insert or ())

    # ---- what is held
    @property
    def batched(self) -> bool:
        """Whether rows are made of whole batches."""
        windows = () if self.select is None else self.select.windows
        return any(WINDOWS[w.name].batch for w in windows if w.name in WINDOWS)

    def held(self, number: int) -> list[Row] | None:
        """What the window of a stream holds, as rows of its shadow; None where there is no shadow."""
        if number not in self.windows:
            return None
        return self._iterated(self.windows[number])

    def combined(self) -> list[Row] | None:
        """The combinations of a join that is aggregated, as it stands; None where that is not known."""
        return None if self.combinations is None else self._iterated(self.combinations)

    def _iterated(self, shadow: ShadowStatement) -> list[Row]:
        statement, event = shadow
        return [event(row) for _, rows in statement.iterated(self.runtime.now) for row in rows]

    def cycled(self) -> list[list[Row]]:
        """The events that the partitions of a query that is run in cycles hold, or have just let go."""
        target = self.target
        if not isinstance(target, plan.CycleStatement) or target.name not in self.runtime.statements:
            return []
        held = self.runtime.statement(target.name).state[1]
        return [held.events(number, target) for number in range(len(target.partitions))]

    def stored(self) -> dict[str, list[Row]]:
        """The rows of the named windows and tables that the target reads or changes."""
        names = stores_read(self.target)
        if not isinstance(self.target, plan.CreateVariableStatement):
            names |= stores_written(self.target, self.runtime.catalog)
        found = {}
        for name in sorted(names & self.runtime.stores.keys()):
            owner: Any = self.runtime.stores[name].owner
            fresh = owner.outlet.layout.event
            found[name] = [fresh(row) for _, rows in owner.iterated(self.runtime.now) for row in rows]
        return found


def compared_leaves(e: x.BoundExpr) -> list[x.BoundExpr]:
    """The properties, variables, aggregates and the like that an expression compares, each once."""
    found: dict[x.BoundExpr, None] = {}
    open_ = [e]
    while open_:
        part = open_.pop()
        if isinstance(part, _LEAVES) or (
            isinstance(part, x.MemberAccess) and not isinstance(part.target, x.MethodCall)
        ):
            found[part] = None
        elif not isinstance(part, x.LambdaExpr):
            open_.extend(reversed(x.children(part)))
    return list(found)


_LEAVES = (
    x.Prop, x.EventTypeName, x.VariableRead, x.AggregateRef, x.KeyRef, x.ContextProp, x.SubqueryRef, x.TableRead,
    x.Prev, x.Prior,
)  # fmt: skip
