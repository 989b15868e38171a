"""Scopes: the names that an expression may refer to.

A `ModuleScope` is the state of binding one module: catalog, options, diagnostics, and the names that are declared so
far. A `Scope` belongs to one expression: its streams, its context, and the clauses that are not allowed there. Rules
derive a scope for a clause with `dataclasses.replace`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from cepbook.errors import NO_SPAN, Span
from cepbook.errors import did_you_mean as did_you_mean  # for all of bind
from cepbook.errors import nearest_or_known_names as nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.diagnostics import DiagnosticCollector
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import Catalog, ContextType, DeclaredExpression, EventType
from cepbook.lang.plan.nodes import AggregateCall, Selector, SubqueryForm, SubqueryPlan
from cepbook.lang.registry.aggregates import AggregateRow
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

NO_FROM_CLAUSE = "a statement without a from-clause"  # what such a statement is called
CONTEXT_DECLARATION = "a context"  # where the expressions of ``create context`` stand
PATTERN_MATCH_TYPE = "<pattern>"  # the name of the type of matches
ERROR = Type("error")  # of expressions that were reported already: whatever uses them stays silent


@dataclass(frozen=True, slots=True)
class Options:
    """Configuration that changes the meaning of statements, see `engine.config.Config`.

    `microseconds`: the engine's clock counts microseconds, so periods are bound in microseconds instead of
    milliseconds. `time_zone` is the zone in which date-time methods read moments.
    """

    default_selector: Selector = "istream"
    integer_division: bool = False
    microseconds: bool = False
    time_zone: str = "UTC"


DATA_WINDOW = "a data window"  # where subqueries, prev, prior and, but for some conditions, aggregates do not stand


@dataclass(slots=True)
class ModuleScope:
    """The state of binding one module.

    `dropped` holds names that rejected statements would have declared, so they are not reported again. `subqueries` are
    those of the current statement so far; `subquery` binds one and appends it. `declared` are the expressions that the
    current statement declares, `expanding` those whose bodies are being bound. A language with `only_functions` has no
    methods, casts and ``||`` that a hint could propose.
    """

    catalog: Catalog
    source: str
    options: Options
    problems: DiagnosticCollector = field(default_factory=DiagnosticCollector)
    taken: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    statement: str = ""  # the name of the one that is being bound
    only_functions: bool = False
    requires: dict[tuple[str, str], None] = field(default_factory=dict)
    provides: dict[tuple[str, str], None] = field(default_factory=dict)
    subqueries: list[SubqueryPlan] = field(default_factory=list)
    declared: dict[str, DeclaredExpression] = field(default_factory=dict)
    expanding: list[DeclaredExpression] = field(default_factory=list)
    subquery: Callable[[ast.Select, SubqueryForm, x.BoundExpr | None, str, Span, Scope], x.BoundExpr] | None = None

    def report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.add(code, message, span, hint)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        self.problems.fail(code, message, span, hint)

    def reject(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Report ``wrong-parameter`` and leave the current expression."""
        self.problems.fail("wrong-parameter", message, span, hint)

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> None:
        self.problems.unsupported(what, span, hint)

    def need(self, kind: str, name: str) -> None:
        """Record that the module requires an object of another module."""
        if (kind, name) not in self.provides:
            self.requires[kind, name] = None

    def text(self, span: Span) -> str:
        """Return the source text of a statement, or all text for a tree that was made without positions."""
        return (self.source[span.start : span.end] if span.end else self.source).strip()

    def word(self, name: str, span: Span) -> Span:
        """Return the span of `name` within `span`, for nodes that store no span of their names."""
        for match in re.finditer(rf"(?<![\w]){re.escape(name)}(?![\w])", self.source[span.start : span.end]):
            return Span(span.start + match.start(), span.start + match.end())
        return span

    def event_type(self, name: str, span: Span) -> EventType | None:
        """Return the event type. If there is none, report it (unless its own statement was rejected) and return
        None.
        """
        event_type = self.catalog.event_types.get(name)
        if event_type is not None:
            self.need("event type", name)
            return event_type
        if name not in self.dropped:
            stream, _, window = name.rpartition(".")
            hint = did_you_mean(name, self.catalog.event_types)
            if hint is None and stream and window in WINDOWS:
                hint = f"write the data window with a #: {stream}#{window}"
            hint = (
                hint
                or nearest_or_known_names(name, self.catalog.event_types)
                or f"declare it: create schema {name} (…)"
            )
            self.problems.add("unknown-type", f"no event type `{name}`", self.word(name, span), hint)
        return None


@dataclass(frozen=True, slots=True)
class ScopeStream:
    """One stream of the from-clause. `event_type` is None if it is unknown: its properties are not checked then.

    `also` is a second name besides the alias. A stream that is `behind` supplies only properties that no other stream
    has.
    """

    alias: str | None
    event_type: EventType | None
    name: str = ""
    also: str = ""
    behind: bool = False

    def is_called(self, name: str) -> bool:
        """Return whether `name` is the alias (or the name without an alias) or the second name of the stream."""
        own = self.alias if self.alias is not None else self.name
        return bool(name) and name in (own, self.also)


@dataclass(slots=True)
class OuterScope:
    """The scope around a subquery, and the values that the subquery reads from it, with their numbers."""

    scope: Scope
    values: dict[x.BoundExpr, int] = field(default_factory=dict)

    def parameter(self, value: x.BoundExpr) -> x.BoundExpr:
        """Return the parameter of the subquery that stands for `value` of the outer scope."""
        if value.type == ERROR:
            return value
        return x.SubqueryParameter(value.type, self.values.setdefault(value, len(self.values)), span=value.span)


class RowPatternCalls(Protocol):
    """The meaning of calls in match_recognize, where they refer to rows of the match."""

    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Callable[..., x.BoundExpr]) -> x.BoundExpr:
        """Bind a function of a row's position, such as ``prev``."""

    def folded(
        self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Callable[..., x.BoundExpr]
    ) -> x.BoundExpr:
        """Bind an aggregate."""


@dataclass(slots=True)
class Scope:
    """The names that an expression may refer to, and what is not allowed in it.

    * `no_aggregates`, `no_row_functions` and `no_subqueries` name the clause that does not allow aggregates,
      prev/prior/istream, or subqueries.
    * `data_windows` are the windows that prev reads.
    * `grouping_keys` are the keys of a group by clause with grouping sets.
    * `correlated` are names of the events that began the context partition, for the conditions that end it; properties
      and streams come first.
    * `outside` is the scope around a subquery.
    * `params` are the parameters of a declared expression, whose body sees no streams.
    * `locals` are the parameters of the `depth` lambdas around the expression.
    * `rows` binds ``prev`` and aggregates in match_recognize.
    """

    module: ModuleScope
    streams: tuple[ScopeStream, ...] = ()
    context: ContextType | None = None
    unwindowed: bool = False
    no_aggregates: str | None = None
    calls: dict[AggregateCall, int] = field(default_factory=dict)  # with their numbers
    aliases: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    open_: bool = False  # names cannot be checked (a refused from-clause)
    unknown_context: bool = False  # the statement's context is unknown, its properties are not checked
    data_windows: tuple[str, ...] = ()
    no_row_functions: str | None = "this place"
    grouping_keys: tuple[x.BoundExpr, ...] | None = None
    correlated: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    no_subqueries: str | None = None
    outside: OuterScope | None = None
    params: Mapping[str, x.BoundExpr] | None = None
    locals: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    depth: int = 0
    rows: RowPatternCalls | None = None

    @property
    def problems(self) -> DiagnosticCollector:
        return self.module.problems

    def report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.module.report(code, message, span, hint)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        self.module.fail(code, message, span, hint)

    def reject(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        self.module.reject(message, span, hint)

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> None:
        self.module.unsupported(what, span, hint)

    def without_aggregates(self, where: str) -> Scope:
        return replace(self, no_aggregates=where, calls={}, aliases={})

    def event_names(self) -> list[str]:
        """Return the names of events: streams, tags, properties that are events, and events that began the
        partition.
        """
        types = [stream.event_type.properties for stream in self.streams if stream.event_type is not None]
        named = [name for stream in self.streams if (name := stream.alias or stream.name)]
        named += [name for properties in types for name, type_ in properties.items() if type_.event is not None]
        return [*named, *(name for name, value in self.correlated.items() if value.type.event is not None)]

    def property_names(self) -> list[str]:
        return [name for s in self.streams if s.event_type is not None for name in s.event_type.properties]


def error_expression(span: Span = NO_SPAN) -> x.BoundExpr:
    """Return the stand-in for an expression that was reported."""
    return x.Const(ERROR, None, span=span)


ExpressionBinder = Callable[[ast.Expr, Scope], x.BoundExpr]


def bind_whole_event(scope: Scope, name: str | None, span: Span) -> x.BoundExpr:
    """Return the whole event of the stream called `name`, or of the only stream if it is None."""
    for position, stream in enumerate(scope.streams):
        if name is None or stream.is_called(name):
            if stream.event_type is None:
                return error_expression(span)
            return x.EventOf(t.event_of(stream.event_type.name), position, span=span)
    scope.fail("unknown-property", f"no stream `{name}`", span)


def parameter_count_text(least: int, most: int | None) -> str:
    """Return ``2 parameters``, ``1 to 2 parameters`` or ``at least 1 parameter``."""
    if most is None:
        return f"at least {least} parameter{'' if least == 1 else 's'}"
    if least == most:
        return f"{least} parameter{'' if least == 1 else 's'}"
    return f"{least} to {most} parameters"
