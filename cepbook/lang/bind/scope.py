"""What names mean while a module is bound: the collected problems, the streams in scope, type names, hints."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

from cepbook.errors import NO_SPAN, Diagnostic, Span
from cepbook.errors import did_you_mean as did_you_mean  # for all of bind
from cepbook.errors import nearest_or_known_names as nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import Catalog, ContextType, DeclaredExpression, EventType
from cepbook.lang.plan.nodes import AggregateCall, Selector, SubqueryForm, SubqueryPlan
from cepbook.lang.registry.aggregates import AggregateRow
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.types import Type

NO_FROM_CLAUSE = "a statement without a from-clause"  # what such a statement is called
CONTEXT_DECLARATION = "a context"  # where the expressions of ``create context`` stand
PATTERN_MATCH_TYPE = "<pattern>"  # the name of the type of matches
ERROR = Type("error")  # of expressions that were reported already: whatever uses them stays silent


@dataclass(frozen=True, slots=True)
class Options:
    """Configuration that decides what statements mean, see `engine.runtime.Config`.

    `microseconds`: the engine's clock counts microseconds, so periods are bound in them. `time_zone` is that in which
    date-time methods read moments.
    """

    default_selector: Selector = "istream"
    integer_division: bool = False
    microseconds: bool = False
    time_zone: str = "UTC"


class AlreadyReported(Exception):
    """Leaves the binding of one expression or clause; its problem is in the report already."""


DATA_WINDOW = "a data window"  # where subqueries, prev, prior and, but for some conditions, aggregates do not stand


@dataclass(slots=True)
class DiagnosticCollector:
    """Collects the diagnostics of a module, so that one report names them all."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        problem = Diagnostic(code, message, span, hint)
        if problem not in self.found:
            self.found.append(problem)

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Reports and leaves the present expression."""
        self.add(code, message, span, hint)
        raise AlreadyReported(message)

    def suggest(self, since: int, code: str, hint: str) -> None:
        """Give a hint to those of this code from position `since` on that have none."""
        later = self.found[since:]
        self.found[since:] = [replace(d, hint=hint) if d.hint is None and d.code == code else d for d in later]

    def unsupported(self, what: str, span: Span, hint: str | None = None) -> None:
        self.add("not-supported-yet", f"not supported yet: {what}", span, hint)


@dataclass(slots=True)
class ModuleScope:
    """State of one module's binding. `dropped` holds names that refused statements would have declared.

    `subqueries` are those of the statement in hand so far, which `subquery` adds to: it binds one, where it stands.
    `declared` are the expressions of that statement's own, `expanding` those in whose bodies a name stands. In a
    language of `only_functions` there are no methods, casts and ``||`` that a hint could propose.
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
    table: Callable[..., Any] | None = None  # binds what is read of a table

    def need(self, kind: str, name: str) -> None:
        if (kind, name) not in self.provides:
            self.requires[kind, name] = None

    def text(self, span: Span) -> str:
        """The source text of a statement; all of it for a tree that was made without positions."""
        return (self.source[span.start : span.end] if span.end else self.source).strip()

    def word(self, name: str, span: Span) -> Span:
        """Where `name` stands in the text of `span`, for nodes that keep no span of their names."""
        for found in re.finditer(rf"(?<![\w]){re.escape(name)}(?![\w])", self.source[span.start : span.end]):
            return Span(span.start + found.start(), span.start + found.end())
        return span

    def event_type(self, name: str, span: Span) -> EventType | None:
        """The event type; None (reported, unless its own statement was refused) when there is none."""
        found = self.catalog.event_types.get(name)
        if found is not None:
            self.need("event type", name)
            return found
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
    """One stream of the from-clause. `event_type` None: unknown, its properties are not checked.

    `also` is another name of it, next to its alias. A stream that is `behind` has only those properties that no other
    stream has.
    """

    alias: str | None
    event_type: EventType | None
    name: str = ""
    also: str = ""
    behind: bool = False

    def is_called(self, name: str) -> bool:
        own = self.alias if self.alias is not None else self.name
        return bool(name) and name in (own, self.also)


@dataclass(slots=True)
class OuterScope:
    """What a subquery sees around it: names of `scope`; `values` are those that it reads, with their numbers."""

    scope: Scope
    values: dict[x.BoundExpr, int] = field(default_factory=dict)

    def parameter(self, value: x.BoundExpr) -> x.BoundExpr:
        """What stands in the subquery for a `value` from around it."""
        if value.type == ERROR:
            return value
        return x.SubqueryParameter(value.type, self.values.setdefault(value, len(self.values)), span=value.span)


class RowPatternCalls(Protocol):
    """What calls mean in match_recognize; both get the call, its scope, and what binds expressions."""

    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Callable[..., x.BoundExpr]) -> x.BoundExpr:
        """A function of a row's place, such as ``prev``."""

    def folded(
        self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Callable[..., x.BoundExpr]
    ) -> x.BoundExpr:
        """An aggregate."""


@dataclass(slots=True)
class Scope:
    """Where an expression stands: its streams, its context; `no_aggregates` names a clause that allows none.

    `data_windows` are those that prev looks at, `no_row_functions` names a place that allows neither prev nor prior
    nor istream.
    `grouping_keys` are the group by keys of a clause with grouping sets. `correlated` are names of what began the
    context partition, for the conditions that end it; properties and streams come first. `no_subqueries` names a place
    that allows no subquery; in one, `outside` is what stands around it. In the body of a declared expression there are
    only `params`, not the names of streams. `locals` are the parameters of the lambdas around, `depth` in number.
    Where `rows` of match_recognize are spoken of, they bind ``prev`` and aggregates.
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

    def without_aggregates(self, where: str) -> Scope:
        return replace(self, no_aggregates=where, calls={}, aliases={})

    def event_names(self) -> list[str]:
        """What events are called here: streams, tags, properties that are events, what began the partition."""
        types = [stream.event_type.properties for stream in self.streams if stream.event_type is not None]
        named = [name for stream in self.streams if (name := stream.alias or stream.name)]
        named += [name for each in types for name, type_ in each.items() if type_.event is not None]
        return [*named, *(name for name, value in self.correlated.items() if value.type.event is not None)]

    def property_names(self) -> list[str]:
        return [name for s in self.streams if s.event_type is not None for name in s.event_type.properties]


def resolve_context(name: str | None, span: Span, module: ModuleScope) -> tuple[ContextType | None, bool]:
    """The context of ``context NAME …``, and whether it is unknown (then reported)."""
    if name is None:
        return None, False
    found = module.catalog.contexts.get(name)
    if found is not None:
        module.need("context", name)
    elif name not in module.dropped:
        nested = (c.name for c in module.catalog.contexts.values() if name in (level.name for level in c.levels))
        whole = next((f"`{name}` is a level of `{one}`: write context {one}" for one in nested), None)
        hint = whole or nearest_or_known_names(name, module.catalog.contexts) or f"declare it: create context {name} …"
        at = module.word(name, span)
        module.problems.add("unknown-context", f"no context `{name}`", at, hint)
    return found, found is None


def check_context_lists_stream(
    context: ContextType | None, node: ast.SyntaxNode, span: Span, module: ModuleScope
) -> None:
    """A keyed, hash or category context must list an event type that the statement reads anywhere."""
    if context is not None:
        names = [stream.type_name for stream in walk(node) if isinstance(stream, ast.FilterStream)]
        stores = module.catalog.stores
        if any(name in stores and stores[name].context == context.name for name in names):
            return
        if names and all(name in module.catalog.event_types for name in names):
            check_context_lists_types(context, names, span, module)


def check_context_lists_types(context: ContextType, names: Sequence[str], span: Span, module: ModuleScope) -> None:
    """A keyed, hash or category context, or level of a context, must list one of the event types `names`."""
    listed = context.event_types
    known = any(module.catalog.is_a(name, of) for name in names for of in listed)
    if context.kind in ("keyed", "hash", "category") and not known:
        shown, only = (", ".join(f"`{name}`" for name in dict.fromkeys(some)) for some in (names, listed))
        fact = f"context `{context.name}` does not partition {shown}, only {only}"
        hint = f"list {'it' if len(set(names)) == 1 else 'one of them'} in `create context`, or leave the context out"
        module.problems.add("wrong-context", fact, span, hint)
    for level in context.levels:
        check_context_lists_types(level, names, span, module)


_JAVA_PREFIXES = ("java.lang.", "java.math.", "java.util.", "java.time.")


def builtin_type(name: str) -> Type | None:
    """A built-in type by its EPL or Java name, in any case."""
    lower = name.lower()
    found = t.BY_NAME.get(lower)
    if found is not None:
        return found
    for prefix in _JAVA_PREFIXES:
        if lower.startswith(prefix):
            return t.BY_NAME.get(lower.removeprefix(prefix))
    return None


def resolve_type(name: str, module: ModuleScope, span: Span, *, events: bool = True, of: str = "") -> Type:
    """The type called `name` (``int``, ``int[]``, an event type); reported and ERROR when unknown.

    `of` is the name of what is of this type, for who wrote them the wrong way round.
    """
    if name.endswith("[]"):
        element = resolve_type(name[:-2], module, span, events=events, of=of)
        return ERROR if element == ERROR else t.array_of(element)
    if events and name in module.catalog.event_types:
        module.need("event type", name)
        return t.event_of(name)
    found = builtin_type(name)
    if found is not None:
        return found
    if name == "null":  # a column that is always null
        return t.NULL
    if name in module.dropped:
        return ERROR
    known: Collection[str] = [*t.BY_NAME, *(module.catalog.event_types if events else ())]
    hint = nearest_or_known_names(name, known)
    if of and builtin_type(of) is not None:
        hint = "name and type stand the other way round"
    module.problems.add("unknown-type", f"no type `{name}`", module.word(name, span), hint)
    return ERROR


def error_expression(span: Span = NO_SPAN) -> x.BoundExpr:
    """The stand-in for an expression that was reported."""
    return x.Const(ERROR, None, span=span)


def describe_type(type_: Type) -> str:
    """A type as diagnostics name it."""
    if type_ == t.NULL:
        return "null"
    if type_.name == "event":
        return f"an event of type {type_.event}"
    return str(type_)
