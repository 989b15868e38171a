"""Scopes: the names that an expression may refer to.

A `ModuleScope` is the state of binding one module: catalog, options, diagnostics, and the names that are declared so
far. A `Scope` belongs to one expression: its streams, its context, and the clauses that are not allowed there. Rules
derive a scope for a clause with `dataclasses.replace`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from cepbook.errors import NO_SPAN, Diagnostic, Span, did_you_mean, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import PREDEFINED, Catalog, ContextType, DeclaredExpression, EventType
from cepbook.lang.plan.nodes import AggregateCall, Selector, SubqueryForm, SubqueryPlan
from cepbook.lang.registry.aggregates import AggregateRow
from cepbook.lang.registry.foreign_words import COLLECTION_TYPES, FOREIGN_TYPES
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.types import Type

NO_FROM_CLAUSE = "a statement without a from-clause"  # for messages
CONTEXT_DECLARATION = "a context"  # where the expressions of ``create context`` stand
MATCH_TYPE = "<pattern>"  # the name of the type of matches
ERROR = Type("error")  # the type of reported expressions, which every rule accepts


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


FILTER, PATTERN = "a filter", "a pattern"  # whose subqueries need a data window
TIMER = "a timer, guard or key of a pattern"  # where subqueries do not stand
DATA_WINDOW = "a data window"  # where subqueries, prev, prior and, but for some conditions, aggregates do not stand


class AlreadyReported(Exception):
    """Leaves the binding of one expression or clause whose problem is already reported."""


class Reporting(ABC):
    """Reports problems to a collector."""

    __slots__ = ()

    @property
    @abstractmethod
    def problems(self) -> DiagnosticCollector:
        """The collector."""

    def report(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.problems.add(code, message, span, hint)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Report a problem and leave the current expression."""
        self.problems.add(code, message, span, hint)
        raise AlreadyReported(message)

    def wrong(self, message: str, span: Span, hint: str | None = None) -> None:
        """Report ``wrong-parameter``."""
        self.problems.add("wrong-parameter", message, span, hint)

    def mismatch(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Report ``type-mismatch`` and leave the current expression."""
        self.fail("type-mismatch", message, span, hint)

    def reject(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Report ``wrong-parameter`` and leave the current expression."""
        self.fail("wrong-parameter", message, span, hint)

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> None:
        self.problems.add("not-supported-yet", f"not supported yet: {what}", span, hint)


@dataclass(slots=True)
class DiagnosticCollector(Reporting):
    """The diagnostics of a module, each once."""

    reported: list[Diagnostic] = field(default_factory=list)
    known: set[Diagnostic] = field(default_factory=set)

    @property
    def problems(self) -> DiagnosticCollector:
        return self

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        problem = Diagnostic(code, message, span, hint)
        if problem not in self.known:
            self.known.add(problem)
            self.reported.append(problem)

    def suggest(self, since: int, code: str, hint: str) -> None:
        """Give `hint` to the diagnostics with `code` that were added since position `since` and have no hint."""
        later = self.reported[since:]
        hinted = [replace(d, hint=hint) if d.hint is None and d.code == code else d for d in later]
        self.reported[since:] = hinted


@dataclass(slots=True)
class ModuleScope(Reporting):
    """The state of binding one module.

    `rejected_names` are names that rejected statements would have declared; they are not reported again. `subqueries`
    are those of the current statement so far; `subquery` binds one and appends it. `declared` are the expressions that
    the current statement declares, `expanding` those whose bodies are being bound. A language with `only_functions` has
    no methods, casts and ``||`` that a hint could propose.
    """

    catalog: Catalog
    source: str
    options: Options
    problems: DiagnosticCollector = field(default_factory=DiagnosticCollector)
    used_names: set[str] = field(default_factory=set)
    taken: Collection[str] = ()  # names of statements outside of the module
    rejected_names: set[str] = field(default_factory=set)
    statement: str = ""  # the name of the one that is being bound
    only_functions: bool = False
    requires: dict[tuple[str, str], None] = field(default_factory=dict)
    provides: dict[tuple[str, str], None] = field(default_factory=dict)
    subqueries: list[SubqueryPlan] = field(default_factory=list)
    declared: dict[str, DeclaredExpression] = field(default_factory=dict)
    expanding: list[DeclaredExpression] = field(default_factory=list)
    subquery: Callable[[ast.Select, SubqueryForm, x.BoundExpr | None, str, Span, Scope], x.BoundExpr] | None = None

    def is_used(self, name: str) -> bool:
        """Return whether a statement has this name."""
        return name in self.used_names or name in self.taken

    def require(self, kind: str, name: str) -> None:
        """Record that the module requires an object of another module."""
        if (kind, name) not in self.provides:
            self.requires[kind, name] = None

    def text(self, span: Span) -> str:
        """Return the source text of a statement, or all text for a tree that was made without positions."""
        return (self.source[span.start : span.end] if span.end else self.source).strip()

    def locate(self, name: str, span: Span) -> Span:
        """Return the span of `name` within `span`, for nodes that store no span of their names."""
        for match in re.finditer(rf"(?<![\w]){re.escape(name)}(?![\w])", self.source[span.start : span.end]):
            return Span(span.start + match.start(), span.start + match.end())
        return span

    def event_type(self, name: str, span: Span) -> EventType | None:
        """Return the event type called `name`, or None after a report. Rejected names are not reported again."""
        event_type = self.catalog.event_types.get(name)
        if event_type is None and name in PREDEFINED:
            event_type = self.catalog.event_types[name] = PREDEFINED[name]
        if event_type is not None:
            self.require("event type", name)
            return event_type
        if name not in self.rejected_names:
            stream, _, window = name.rpartition(".")
            hint = did_you_mean(name, self.catalog.event_types)
            if hint is None and stream and window in WINDOWS:
                hint = f"write the data window with a #: {stream}#{window}"
            hint = hint or nearest_or_known_names(name, self.catalog.event_types)
            hint = hint or f"declare it: create schema {name} (…)"
            self.report("unknown-type", f"no event type `{name}`", self.locate(name, span), hint)
        return None


@dataclass(frozen=True, slots=True)
class ScopeStream:
    """One stream of the from-clause. `event_type` is None if it is unknown: its properties are not checked then.

    `also` is a second name besides the alias. A stream that is a `fallback` supplies only properties that no other
    stream has.
    """

    alias: str | None
    event_type: EventType | None
    name: str = ""
    also: str = ""
    fallback: bool = False

    @property
    def label(self) -> str:
        """The alias, or the name of a stream without one."""
        return self.alias or self.name

    def is_called(self, name: str) -> bool:
        """Return whether `name` is the alias (or the name without an alias) or the second name of the stream."""
        own = self.alias if self.alias is not None else self.name
        return bool(name) and name in (own, self.also)

    def is_prefix(self, name: str) -> bool:
        """Return whether `name` may stand before a property of the stream: its alias or its event type."""
        return self.is_called(name) or (self.event_type is not None and self.event_type.name == name)


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


class RowPatternCalls(ABC):
    """The meaning of calls in match_recognize, where they refer to rows of the match."""

    @abstractmethod
    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        """Bind a function of a row's position, such as ``prev``."""

    @abstractmethod
    def folded(self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        """Bind an aggregate."""


@dataclass(slots=True)
class Scope(Reporting):
    """The names that an expression may refer to, and what is not allowed in it.

    * `no_aggregates`, `no_row_functions` and `no_subqueries` name the clause that does not allow aggregates,
      prev/prior/istream, or subqueries.
    * `arrivals_only`: nothing leaves, so istream is true.
    * `data_windows` are the windows that prev reads.
    * `grouping_keys` are the keys of a group by clause with grouping sets.
    * `correlated` are names of the events that began the context partition, for the conditions that end it; properties
      and streams come first.
    * `outside` is the scope around a subquery.
    * `params` are the parameters of a declared expression, whose body sees no streams.
    * `locals` are the parameters of the `depth` lambdas around the expression.
    * `rows` binds ``prev`` and aggregates in match_recognize.
    * `into_table` is the table that keeps the aggregates: those that hold events need no data window then.
    """

    module: ModuleScope
    streams: tuple[ScopeStream, ...] = ()
    context: ContextType | None = None
    unwindowed: bool = False
    no_aggregates: str | None = None
    calls: dict[AggregateCall, int] = field(default_factory=dict)  # with their numbers
    aliases: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    unchecked: bool = False  # names cannot be checked (a refused from-clause)
    unknown_context: bool = False  # the statement's context is unknown, its properties are not checked
    data_windows: tuple[str, ...] = ()
    no_row_functions: str | None = "this place"
    arrivals_only: bool = False
    grouping_keys: tuple[x.BoundExpr, ...] | None = None
    correlated: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    no_subqueries: str | None = None
    outside: OuterScope | None = None
    params: Mapping[str, x.BoundExpr] | None = None
    locals: Mapping[str, x.BoundExpr] = field(default_factory=dict)
    depth: int = 0
    rows: RowPatternCalls | None = None
    into_table: str | None = None

    @property
    def problems(self) -> DiagnosticCollector:
        return self.module.problems

    def without_aggregates(self, where: str, **changes: Any) -> Scope:
        """Return a copy for expressions `where` aggregates are not allowed, with other fields changed as well."""
        return replace(self, no_aggregates=where, calls={}, aliases={}, **changes)

    def event_names(self) -> list[str]:
        """Return the names of streams, tags, properties that are events, and events that began the partition."""
        types = [stream.event_type.properties for stream in self.streams if stream.event_type is not None]
        named = [name for stream in self.streams if (name := stream.label)]
        named += [name for properties in types for name, type_ in properties.items() if type_.event is not None]
        return [*named, *(name for name, value in self.correlated.items() if value.type.event is not None)]

    def property_names(self) -> list[str]:
        return [name for s in self.streams if s.event_type is not None for name in s.event_type.properties]


def error_expression(span: Span = NO_SPAN) -> x.BoundExpr:
    """Return the stand-in for an expression that was reported."""
    return x.Const(ERROR, None, span=span)


Binder = Callable[[ast.Expr, Scope], x.BoundExpr]


def bind_whole_event(scope: Scope, name: str | None, span: Span) -> x.BoundExpr:
    """Return the whole event of the stream called `name`, or of the only stream if it is None."""
    for position, stream in enumerate(scope.streams):
        if name is None or stream.is_called(name):
            if stream.event_type is None:
                return error_expression(span)
            return x.EventOf(t.event_of(stream.event_type.name), position, span=span)
    scope.fail("unknown-property", f"no stream `{name}`", span)


def count_text(least: int, most: int | None) -> str:
    """Return ``2 parameters``, ``1 to 2 parameters`` or ``at least 1 parameter``."""
    if most is None:
        return f"at least {least} parameter{'' if least == 1 else 's'}"
    if least == most:
        return f"{least} parameter{'' if least == 1 else 's'}"
    return f"{least} to {most} parameters"


_JAVA_PREFIXES = ("java.lang.", "java.math.", "java.util.", "java.time.")


def builtin_type(name: str) -> Type | None:
    """Return a built-in type by its EPL or Java name, in any case, or None."""
    lower = name.lower()
    type_ = t.BY_NAME.get(lower)
    if type_ is not None:
        return type_
    for prefix in _JAVA_PREFIXES:
        if lower.startswith(prefix):
            return t.BY_NAME.get(lower.removeprefix(prefix))
    return None


def resolve_type(name: str, module: ModuleScope, span: Span, *, events: bool = True, of: str = "") -> Type:
    """Return the type called `name` (``int``, ``int[]``, an event type), or ERROR after a report.

    `of` is the name of the declared object: the hint tells if name and type are interchanged.
    """
    if name.endswith("[]"):
        element = resolve_type(name[:-2], module, span, events=events, of=of)
        return ERROR if element == ERROR else t.array_of(element)
    if events and name in module.catalog.event_types:
        module.require("event type", name)
        return t.event_of(name)
    type_ = builtin_type(name)
    if type_ is not None:
        return type_
    if name == "null":  # a column that is always null
        return t.NULL
    if name in module.rejected_names:
        return ERROR
    known: Collection[str] = [*t.BY_NAME, *(module.catalog.event_types if events else ())]
    same = FOREIGN_TYPES.get(name.lower())
    hint = nearest_or_known_names(name, known) if same is None else f"write `{same}`"
    if name.lower().rpartition(".")[2] in COLLECTION_TYPES:
        hint = "write the type of the elements with brackets, such as `int[]`"
    if of and builtin_type(of) is not None:
        hint = "write the type and the name in the other order"
    module.report("unknown-type", f"no type `{name}`", module.locate(name, span), hint)
    return ERROR


def declared_type(node: ast.ColumnDef | ast.CreateVariable, module: ModuleScope) -> Type:
    """Return the type of a declared column or variable, or ERROR after a report."""
    type_ = resolve_type(node.type_name, module, node.span, of=node.name)
    for _ in range(node.dimensions):
        type_ = type_ if type_ == ERROR else t.array_of(type_, node.primitive)
    return type_


def type_text(type_: Type) -> str:
    """Return a type as diagnostics name it."""
    if type_.of is not None and type_.primitive:
        return f"{type_text(type_.of)}[primitive]"
    if type_ == t.NULL:
        return "null"
    if type_.name == "event":
        return f"an event of type {type_.event}"
    return str(type_)


def resolve_context(name: str | None, span: Span, module: ModuleScope) -> tuple[ContextType | None, bool]:
    """Return the context of ``context NAME …``, and whether it is unknown (then it was reported)."""
    if name is None:
        return None, False
    context = module.catalog.contexts.get(name)
    if context is not None:
        module.require("context", name)
    elif name not in module.rejected_names:
        nested = (c.name for c in module.catalog.contexts.values() if name in (level.name for level in c.levels))
        whole = next((f"`{name}` is a level of `{one}`: write context {one}" for one in nested), None)
        hint = whole or nearest_or_known_names(name, module.catalog.contexts) or f"declare it: create context {name} …"
        at = module.locate(name, span)
        module.report("unknown-context", f"no context `{name}`", at, hint)
    return context, context is None


def check_lists_stream(context: ContextType | None, node: ast.SyntaxNode, span: Span, module: ModuleScope) -> None:
    """Report a keyed, hash or category context that lists no event type that the statement reads."""
    if context is not None:
        names = [stream.type_name for stream in walk(node) if isinstance(stream, ast.FilterStream)]
        stores = module.catalog.stores
        if any(name in stores and stores[name].context == context.name for name in names):
            return
        if names and all(name in module.catalog.event_types for name in names):
            check_lists_types(context, names, span, module)


def check_lists_types(context: ContextType, names: Sequence[str], span: Span, module: ModuleScope) -> None:
    """Report a keyed, hash or category context, or such a level of a context, that lists none of `names`."""
    listed = context.event_types
    known = any(module.catalog.is_a(name, of) for name in names for of in listed)
    if context.kind in ("keyed", "hash", "category") and not known:
        stream_text, only = (", ".join(f"`{name}`" for name in dict.fromkeys(some)) for some in (names, listed))
        fact = f"context `{context.name}` does not partition {stream_text}, only {only}"
        hint = f"list {'it' if len(set(names)) == 1 else 'one of them'} in `create context`, or leave the context out"
        module.report("wrong-context", fact, span, hint)
    for level in context.levels:
        check_lists_types(level, names, span, module)
