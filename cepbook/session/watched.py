"""A statement that runs again over the known events, with shadows beside it that tell what its rows are made of.

Shadows are statements like the target that nobody else hears of: one with hidden columns for the partition, the keys of
the group and the events of each row, one for each window, one of rows before having and output. What cannot have such a
shadow goes without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cepbook.engine.asking import functions_in
from cepbook.engine.delta import Delta, Row
from cepbook.engine.runtime import Runtime, Statement
from cepbook.errors import BindError
from cepbook.lang import expr as x
from cepbook.lang import plan
from cepbook.lang.reads import expressions
from cepbook.lang.types import BOOLEAN, INT, OBJECT
from cepbook.lang.windows import WINDOWS
from cepbook.session.arrivals import Arrivals, Happening
from cepbook.session.relived import Relived, Tap
from cepbook.session.tables import free_name

PARTITION, EVENT, COUNTS = " partition", " event", " counts"  # columns that no column of a user can be called
Shadow = tuple[Statement, Callable[[Any], Row]]


@dataclass(slots=True)
class Told:
    """What the statement and its shadows told of during one stimulus: (insert, remove) rows of each delivery."""

    delivered: list[Delta] = field(default_factory=list)
    rows: list[Delta] = field(default_factory=list)
    before_output: list[Delta] = field(default_factory=list)
    reached: list[Row] = field(default_factory=list)
    moved: dict[int, list[Delta]] = field(default_factory=dict)
    matches: list[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sent:
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


def functions_of(statements: Sequence[object]) -> tuple[str, ...]:
    """The Python functions that statements call."""
    found = [name for each in expressions(tuple(statements)) for name in functions_in(each)]
    return tuple(dict.fromkeys(found))


class Watched(Relived):
    """`told` is what came of the last stimulus. `sent` are the events that were sent, by identity."""

    def __init__(self, runtime: Runtime, record: Arrivals, target: plan.SelectStatement, *, shadows: bool) -> None:
        super().__init__(runtime, record, target)
        self.told = Told()
        self.count = 0  # deliveries so far
        self._muted = False
        self.sent: dict[int, Sent] = {}
        self.unbound: list[Row] = []  # rows of the shadow of a stream without windows, all that came
        self.windows: dict[int, Shadow] = {}
        self.aggregation = next((n for n in plan.chain(target.root) if isinstance(n, plan.Aggregation)), None)
        self.having = next((n for n in plan.chain(target.root) if isinstance(n, plan.Having)), None)
        self.conditions = x.conjuncts(None if self.having is None else self.having.predicate)
        self._shadows = shadows

    @property
    def calls(self) -> tuple[str, ...]:
        """The Python functions that are called by it."""
        line = self._line
        return functions_of((*line.readers, *line.contexts, *line.stores))

    def let(self, happenings: list[Happening]) -> None:
        self.told = Told()
        super().let(happenings)

    def pass_by(self, happenings: list[Happening]) -> None:
        """Let it happen, and tell of nothing: most of what happens comes before what is asked about."""
        self._muted = True
        try:
            super().let(happenings)
        finally:
            self._muted = False

    def catch_up(self) -> None:
        self.told = Told()
        super().catch_up()

    def comes(self, type_name: str, event: Row, time: int) -> None:
        self.sent[id(event)] = Sent(event, type_name, time)

    # ---- shadows
    def _deploy_target(self) -> None:
        if self._shadows:
            self._deploy_shadows()
        target = self._deploy(self.target)
        assert target is not None
        target.add_sink(Tap(target.outlet.layout, self._delivered, lambda: self._muted, self._passed))
        if target.steps.source.pattern is not None or target.steps.recognize is not None or target.steps.join:
            target.add_match_listener(self._matched)

    def _matched(self, match: Mapping[str, Any]) -> None:
        if not self._muted:
            self.told.matches.append(match)

    def _passed(self, deliveries: int) -> None:
        self.count += deliveries

    def _delivered(self, delta: Delta) -> None:
        self.count += 1
        self.told.delivered.append(delta)

    def _deploy_shadows(self) -> None:
        target, sources = self.target, self.target.sources
        partition = (plan.Column(PARTITION, x.ContextProp(INT, "id")),) if target.context is not None else ()
        event = plan.Column(EVENT, x.EventOf(OBJECT, 0))
        for type_name in dict.fromkeys(name for source in sources for name in source.event_types if name):
            came = plan.Projection(plan.Source(type_name, None, None), (*partition, event))
            self._attach("reached", self._like(came), self._reached)
        root = target.root
        keys = () if self.aggregation is None else self.aggregation.keys
        extra = (*partition, *(plan.Column(key_column(i), x.KeyRef(key.type, i)) for i, key in enumerate(keys)))
        events = tuple(plan.Column(event_column(i), x.EventOf(OBJECT, i)) for i in range(len(sources)))
        alike = {"kind": target.kind, "selector": target.selector, "output": target.output, "into": None}
        several = (events, ()) if target.kind in ("unaggregated", "aggregated", "aggregated_grouped") else ((),)
        if not root.distinct and target.into is None:
            for columns in several:
                made = self._like(replace(root, columns=(*root.columns, *extra, *columns)), **alike)
                if self._attach("rows", made, lambda delta: self.told.rows.append(delta)) is not None:
                    break
        for number, stream in enumerate(plan.streams(root)):
            self._attach_window(number, stream, partition)
        if target.into is None and (self.conditions or target.output is not None):
            self._attach_before_output(extra, {**alike, "output": None})

    def _attach_window(self, number: int, stream: plan.StreamNode, partition: tuple[plan.Column, ...]) -> None:
        """A shadow of what a window holds; of a stream without one all that came."""
        held = [node for node in plan.chain(stream) if isinstance(node, plan.Windowed)]
        below: plan.StreamNode = held[-1] if held else next(n for n in plan.chain(stream) if isinstance(n, plan.Source))
        if isinstance(below, plan.Source) and (below.pattern is not None or below.nothing or self.aggregation is None):
            return
        own = not any(isinstance(node, plan.Derived) for node in plan.chain(stream)) and self.target.join is None
        facts = []
        if own and self.aggregation is not None:
            facts = [plan.Column(key_column(i), key) for i, key in enumerate(self.aggregation.keys)]
            where = next((n for n in plan.chain(self.target.root) if isinstance(n, plan.Selection)), None)
            facts += [] if where is None else [plan.Column(COUNTS, where.predicate)]
        event = plan.Column(EVENT, x.EventOf(OBJECT, 0))

        def moved(delta: Delta) -> None:
            self.told.moved.setdefault(number, []).append(delta)
            if not held:
                self.unbound.extend(delta.insert or ())

        for columns in ((event, *partition, *facts), (event, *partition)):
            shadow = self._like(plan.Projection(below, columns), selector="irstream")
            statement = self._attach(f"window{number}", shadow, moved, always=not held)
            if statement is not None:
                if held:
                    self.windows[number] = statement, statement.outlet.layout.event
                return

    def _attach_before_output(self, extra: tuple[plan.Column, ...], alike: Mapping[str, Any]) -> None:
        """A shadow of the rows that having and the output clause are shown, with what each condition says of them."""
        below = self.target.root.input if self.having is None else self.having.input
        leaves = {}
        for number, condition in enumerate(self.conditions):
            leaves[f"c{number}"] = condition
            for place, leaf in enumerate(leaves_of(condition)):
                leaves[f"v{number}_{place}"] = leaf
        columns = tuple(plan.Column(name, value) for name, value in leaves.items())
        marker = () if columns else (plan.Column("c", x.Const(BOOLEAN, True)),)
        for shown in ((*columns, *marker, *extra), (*columns, *marker)):
            made = self._like(plan.Projection(below, shown), **alike)
            if self._attach("before", made, lambda delta: self.told.before_output.append(delta)) is not None:
                return

    def _like(self, root: plan.Projection, **changes: Any) -> plan.SelectStatement:
        shadow = replace(
            self.target,
            named=True,
            root=root,
            kind="unaggregated",
            selector="istream",
            insert=None,
            output=None,
            drop=False,
            into=None,
        )
        return replace(shadow, **changes)

    def _attach(
        self, name: str, shadow: plan.SelectStatement, listener: Callable[[Delta], None], *, always: bool = False
    ) -> Statement | None:
        """Deploy a shadow and listen to it; None where the engine refuses it."""
        names = {s.name for s in self._line.readers} | set(self.runtime.statements)
        try:
            statement = self._deploy(replace(shadow, name=free_name(name, names)))
        except BindError:
            return None
        assert statement is not None
        statement.add_sink(Tap(statement.outlet.layout, listener, lambda: self._muted and not always))
        return statement

    def _reached(self, delta: Delta) -> None:
        self.told.reached.extend(delta.insert or ())

    # ---- what is held
    @property
    def batched(self) -> bool:
        """Whether rows are made of whole batches."""
        return any(WINDOWS[w.name].batch for w in self.target.windows if w.name in WINDOWS)

    def held(self, number: int) -> list[Row] | None:
        """What the window of a stream holds, as rows of its shadow; None where there is no shadow."""
        if number not in self.windows:
            return None
        statement, event = self.windows[number]
        return [event(row) for _, rows in statement.iterated(self.runtime.now) for row in rows]


def leaves_of(e: x.Expr) -> list[x.Expr]:
    """The properties, variables, aggregates and the like that an expression compares, each once."""
    found: dict[x.Expr, None] = {}
    open_ = [e]
    while open_:
        part = open_.pop()
        if isinstance(part, _LEAVES) or (isinstance(part, x.Member) and not isinstance(part.target, x.MethodCall)):
            found[part] = None
        elif not isinstance(part, x.Lambda):
            open_.extend(reversed(x.children(part)))
    return list(found)


_LEAVES = (x.Prop, x.Variable, x.AggregateRef, x.KeyRef, x.ContextProp, x.SubqueryRef, x.TableRead, x.Prev, x.Prior)
