"""The names that a module may refer to: event types, contexts, variables, stores, functions. The runtime owns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.syntax import ast
from cepbook.lang.types import LONG, LONG_DATE, MAP, STRING, Type

# What an event of a variant stream keeps under names that EPL cannot write: the name of its type, and the event
VARIANT_TYPE_NAME, VARIANT_EVENT = " type", " event"


@dataclass(frozen=True, slots=True, repr=False)
class EventType:
    """An event type. `properties` lists name -> type in declaration order, inherited ones first.

    `supertypes` names *all* types that it is a subtype of, nearest first. `time_property` is the property that
    ``replay`` takes the event time from when none is given (``starttimestamp`` of create schema),
    `end_time_property` that of ``endtimestamp``. `variant` are the types that a variant stream takes, none: any.
    `representation` is the word before ``schema``: ``json`` … `times` are further longs that hold times, for display.
    """

    name: str
    properties: Mapping[str, Type]
    supertypes: tuple[str, ...] = ()
    time_property: str | None = None
    end_time_property: str | None = None
    variant: tuple[str, ...] | None = None
    representation: str | None = None
    times: frozenset[str] = frozenset()

    @property
    def shown(self) -> Mapping[str, Type]:
        """The properties that EPL can name; events of a variant stream have two more."""
        if VARIANT_EVENT not in self.properties:
            return self.properties
        return {name: of for name, of in self.properties.items() if name not in (VARIANT_TYPE_NAME, VARIANT_EVENT)}

    @property
    def delivered(self) -> EventType:
        """The type of rows of this type that leave the engine: with the properties that EPL can name."""
        properties = self.shown
        return self if properties is self.properties else replace(self, properties=properties)

    @property
    def timed(self) -> frozenset[str]:
        """The properties that are times, for which Python may have dates and texts of dates."""
        own = {self.time_property, self.end_time_property, *self.times}
        return frozenset(name for name in own if name is not None)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name if name.isidentifier() else f'`{name}`'} {of}" for name, of in self.shown.items())
        parents = f" inherits {', '.join(self.supertypes)}" if self.supertypes else ""
        return f"<event type {self.name}({columns}){parents}>"


LATE_EVENT = EventType(
    "LateEvent", {"type": STRING, "time": LONG_DATE, "lateness": LONG, "event": MAP}, time_property="time"
)
PREDEFINED = {LATE_EVENT.name: LATE_EVENT}  # event types that are there as soon as a text names them


@dataclass(frozen=True, slots=True)
class ContextType:
    """A context by name: its kind (``keyed`` …), built-in properties, and the event types whose events it partitions.

    `kind`: keyed, hash, category, nonoverlapping, overlapping, nested. `keys` holds, per listed event type of a keyed
    one, the key expressions (over stream 0) in the order of ``key1`` … ``keyN``. `levels` are the contexts of a nested
    one, outermost first, which are in no catalog; each is a built-in property of the name of the level, a struct of its
    properties.
    """

    name: str
    kind: str
    properties: Mapping[str, Type]
    event_types: tuple[str, ...]
    keys: Mapping[str, tuple[BoundExpr, ...]] = field(default_factory=dict)
    levels: tuple[ContextType, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableType:
    """A variable by name. `constant` ones never change; where their `value` is `known` the binder puts it in place.

    A constant whose value must be computed when it is created (``= computeHash('a')``) is not `known`.
    """

    name: str
    type: Type
    constant: bool = False
    value: object = None
    known: bool = False
    context: str | None = None  # whose partitions have a value each


@dataclass(frozen=True, slots=True)
class StoreType:
    """A named window or a table by name; its columns are the properties of the event type of the same name.

    `partitioned_as` names the event type whose partitions the rows of a window under a context belong to: the one that
    it was created ``as``. A window that `collects` keeps batches, whose rows others see when these are released. Of a
    table there are the names of the primary `keys`; the aggregation columns have the `plan.AggregateCall` in `calls`
    and their syntax in `texts`. `shares_indexes`: subqueries use the indexes of the store.
    """

    name: str
    kind: Literal["window", "table"]
    context: str | None = None
    partitioned_as: str | None = None
    keys: tuple[str, ...] = ()
    calls: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    texts: Mapping[str, ast.Expr] = field(default_factory=dict, compare=False, repr=False)
    collects: bool = False
    shares_indexes: bool = False


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A Python function or class that EPL calls by name: its result type and the types of its `parameters`.

    Without `parameters` it takes any number of arguments of any type; the last `optional` parameters may be left out. A
    parameter that is not `nullable` is never passed null: the call is null then, and an aggregate skips the event. An
    ``aggregate`` is a class whose objects receive values one by one. A ``collector`` is a function of arrays with the
    values of all events. A ``window`` is a function of such arrays that returns which events stay; a `clocked` one may
    ask to be called at a time.
    """

    returns: Type
    parameters: tuple[Type, ...] | None = None
    nullable: tuple[bool, ...] = ()
    kind: Literal["function", "aggregate", "collector", "window"] = "function"
    optional: int = 0
    clocked: bool = False

    def __str__(self) -> str:
        parameters = "…" if self.parameters is None else ", ".join(map(str, self.parameters))
        return f"{self.kind} ({parameters}) {self.returns}"


ReturnSpec = Type | FunctionType  # the result type of a function, or its full signature


@dataclass(frozen=True, slots=True)
class DeclaredExpression:
    """A named expression, as a syntax tree that is bound at each use. Spans of the tree refer to `source`."""

    name: str
    params: tuple[str, ...]
    body: ast.Expr
    alias: bool
    source: str = field(compare=False)  # spans and tree say what is the same; other statements of the text may go


SPATIAL_INDEX = "pointregionquadtree"


@dataclass(frozen=True, slots=True)
class IndexType:
    """An index of a named window or table: its columns with their kinds, ``hash`` or ``btree``.

    An index of the kind `SPATIAL_INDEX` is known by name only: the engine does not build it.
    """

    name: str
    store: str
    columns: tuple[tuple[str, str], ...]
    unique: bool = False

    @property
    def full_name(self) -> str:
        """The name of the store, a dot, the name of the index."""
        return f"{self.store}.{self.name}"

    @property
    def spatial(self) -> bool:
        """Return whether it is an index of points of a plane."""
        return any(kind == SPATIAL_INDEX for _, kind in self.columns)


@dataclass(slots=True)
class Catalog:
    """All names known to the compiler. Binding works on a copy, so a module that fails changes nothing."""

    event_types: dict[str, EventType] = field(default_factory=dict)
    contexts: dict[str, ContextType] = field(default_factory=dict)
    functions: dict[str, FunctionType] = field(default_factory=dict)
    variables: dict[str, VariableType] = field(default_factory=dict)
    stores: dict[str, StoreType] = field(default_factory=dict)
    indexes: dict[str, IndexType] = field(default_factory=dict)  # by their full names
    expressions: dict[str, DeclaredExpression] = field(default_factory=dict)

    def copy(self) -> Catalog:
        """Return an independent catalog that shares the entries."""
        return Catalog(
            self.event_types.copy(),
            self.contexts.copy(),
            self.functions.copy(),
            self.variables.copy(),
            self.stores.copy(),
            self.indexes.copy(),
            self.expressions.copy(),
        )

    def is_a(self, name: str, supertype: str) -> bool:
        """Return whether events of type `name` are also events of `supertype`."""
        if name == supertype:
            return True
        event_type = self.event_types.get(name)
        return event_type is not None and supertype in event_type.supertypes

    def stands_for(self, name: str, other: str) -> bool:
        """Return whether an event of type `name` can be taken as one of `other`: it is one, or both have the same
        properties, as a named window and the type of its events.
        """
        types = self.event_types.get(name), self.event_types.get(other)
        same = None not in types and len({tuple(known.properties.items()) for known in types if known is not None}) == 1
        return same or self.is_a(name, other)
