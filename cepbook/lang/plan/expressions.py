"""Bound expressions: every name is resolved and every node has a type. Engines lower these and nothing else.

Null propagates through every node unless its docstring says otherwise: `ComparisonExpr`, `Arith`, `Concat` and
`StringMatch` are null when an operand is null. `Logic` is three-valued. A null condition rejects.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cepbook.lang.plan.expression_base import *
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.types import BITS, BOOLEAN, Type


@dataclass(frozen=True, slots=True)
class MemberAccess(BoundExpr):
    """``target.name`` on a nested event or map; null when the target is null or lacks it."""

    target: BoundExpr
    name: str

    @property
    def named_property(self) -> tuple[str, str] | None:
        event_type = self.target.type.event
        return None if event_type is None else (event_type, self.name)

    def tag_member(self, stream: int) -> tuple[str, str] | None:
        if isinstance(self.target, Prop) and self.target.stream == stream:
            return self.target.name, self.name
        return None


@dataclass(frozen=True, slots=True)
class IndexAccess(BoundExpr):
    """``target[index]`` (0-based) on an array, ``target('key')`` on a map; null when out of range or absent."""

    target: BoundExpr
    index: BoundExpr


@dataclass(frozen=True, slots=True)
class EventOf(BoundExpr):
    """The whole event of a stream, as a value."""

    stream: int

    @property
    def read_stream(self) -> int:
        return self.stream


@dataclass(frozen=True, slots=True)
class EventTypeName(BoundExpr):
    """``typeof(event)``: the name of the type the event arrived with, or `declared` for an event within another."""

    event: BoundExpr
    declared: str


@dataclass(frozen=True, slots=True)
class ContextProp(BoundExpr):
    """``context.name``: a built-in property of the context partition (id, name, key1, …)."""

    name: str

    @property
    def context_property(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class CurrentTimestamp(NeverNull):
    """Engine time of the delivery in milliseconds."""


@dataclass(frozen=True, slots=True)
class VariableRead(BoundExpr):
    """The present value of variable `name`, read at each evaluation. Constant variables are bound as `Const`."""

    name: str

    @property
    def variable_name(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Prev(BoundExpr):
    """``prev``, ``prevtail``, ``prevwindow``, ``prevcount``: other events of the data window of the row's event.

    `kind` ``prev``: `value` of the event `index` places before the newest (in a batch: before the row's own); ``tail``:
    `index` places from the oldest; ``window``: `value` of all, newest first; ``count``: how many there are (of the
    stream that `value` reads, in a join).
    Null in rows of the remove stream, and for an index that is null or beyond the window.
    """

    kind: str
    index: BoundExpr | None
    value: BoundExpr | None

    @property
    def picked_from(self) -> tuple[BoundExpr, ...]:
        return (self.value,) if self.kind in ("prev", "tail") and self.value is not None else ()

    @property
    def constant_index(self) -> int | None:
        """The index if it is a constant from 0 on, else None."""
        index = self.index.value if isinstance(self.index, Const) else None
        return index if isinstance(index, int) and index >= 0 else None

    @property
    def previous_value(self) -> tuple[BoundExpr, int] | None:
        index = self.constant_index if self.kind == "prev" else None
        return None if index is None or self.value is None else (self.value, index)


@dataclass(frozen=True, slots=True)
class Prior(BoundExpr):
    """``prior(index, value)``: `value` of the event `index` (a constant) arrivals before the row's own in the stream.

    Fixed at arrival: it keeps its value in the remove stream. Null where there was none.
    """

    index: int
    value: BoundExpr

    @property
    def earlier_value(self) -> tuple[BoundExpr, int]:
        return self.value, self.index

    @property
    def picked_from(self) -> tuple[BoundExpr, ...]:
        return (self.value,)


@dataclass(frozen=True, slots=True)
class InsertStream(BoundExpr):
    """``istream()``: true in rows of the insert stream, false in those of the remove stream. Boolean."""


@dataclass(frozen=True, slots=True)
class Grouping(BoundExpr):
    """``grouping(key)``, ``grouping_id(key, …)``: an int, one bit per key (the first is the highest).

    A bit is 1 where the row's grouping set leaves out the group-by key with that index.
    """

    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WindowValue(BoundExpr):
    """A built-in of ``expr`` and ``expr_batch`` conditions.

    `name`: current_count, expired_count, oldest_timestamp, newest_timestamp, view_reference, oldest_event,
    newest_event.
    """

    name: str


@dataclass(frozen=True, slots=True)
class OutputCounter(BoundExpr):
    """A built-in of ``output when``, such as count_insert or last_output_timestamp."""

    name: str


@dataclass(frozen=True, slots=True)
class AggregateRef(BoundExpr):
    """The current value of call `index` of the statement's `Aggregation`."""

    index: int

    @property
    def aggregate_number(self) -> int:
        return self.index


@dataclass(frozen=True, slots=True)
class MeasureAggregate(BoundExpr):
    """``sum(B.price)`` in measures of match_recognize: aggregate `name` of `value` over the `rows` of a variable.

    In `value` and `filter` stream 0 is one of these rows. `distinct` counts equal values once. `type` is that of the
    result. Null without rows, but for ``count``.
    """

    name: str
    rows: BoundExpr
    value: BoundExpr
    filter: BoundExpr | None
    distinct: bool

    @property
    def row_aggregate(self) -> tuple[str, bool, BoundExpr, BoundExpr] | None:
        return (self.name, self.distinct, self.rows, self.value) if self.filter is None else None

    @property
    def named_property(self) -> tuple[str, str] | None:
        event_type = None if self.rows.type.of is None else self.rows.type.of.event
        picks = self.name in AGGREGATES and AGGREGATES[self.name].picks
        return (event_type, self.value.property_name) if picks and event_type is not None else None


@dataclass(frozen=True, slots=True)
class KeyRef(BoundExpr):
    """The value of group-by key `index` of the current group (used for properties of fully aggregated rows)."""

    index: int

    def of_group(self, keys: Sequence[BoundExpr]) -> BoundExpr:
        return keys[self.index]


@dataclass(frozen=True, slots=True)
class SharedExpr(BoundExpr):
    """An `operand` that several columns of a row read and that is evaluated once per row."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class MatchedRow(BoundExpr):
    """``B.firstOf()``, ``B.lastOf()``, ``B.countOf()``, ``B[1]`` over the `rows` of a variable of match_recognize.

    Evaluated without building the list of all rows.
    """

    which: Literal["first", "last", "number", "at"]
    rows: BoundExpr
    index: int | None = None


@dataclass(frozen=True, slots=True)
class SubqueryRef(BoundExpr):
    """The value of subquery `index` of the statement, by its form (`nodes.SubqueryPlan`).

    `args` are the values of its `SubqueryParameter`s, in order; they are evaluated outside of the subquery.
    """

    index: int
    args: tuple[BoundExpr, ...]

    @property
    def subquery_number(self) -> int:
        return self.index


@dataclass(frozen=True, slots=True)
class SubqueryParameter(BoundExpr):
    """Within a subquery: argument number `index` of the `SubqueryRef`."""

    index: int

    @property
    def parameter_index(self) -> int:
        return self.index


@dataclass(frozen=True, slots=True)
class Arith(BoundExpr):
    """``+ - * /  %`` and bitwise ``& | ^``. `type` is the promoted result type and rules the arithmetic:

    int and long wrap around as in Java, ``/`` is floating division unless Config.integer_division,
    division by zero gives ±Infinity or NaN (Config.division_by_zero_null: null), ``%`` keeps the dividend's sign.
    """

    op: str
    left: BoundExpr
    right: BoundExpr

    @property
    def arithmetic(self) -> tuple[str, BoundExpr, BoundExpr]:
        return self.op, self.left, self.right

    @property
    def nullable(self) -> bool:
        return self.op in "/%" or self.right.nullable or self.left.nullable


@dataclass(frozen=True, slots=True)
class Negate(NullPropagating):
    """``-x``; null for null, and the smallest whole number of `type` stays as it is."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class Concat(NullPropagating):
    """``a || b``; non-strings print as Java prints them; null if any operand is null."""

    operands: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class ComparisonExpr(NullPropagating):
    """``= != < <= > >=``; null if a side is null."""

    op: str
    left: BoundExpr
    right: BoundExpr

    @property
    def predicate(self) -> tuple[str, tuple[BoundExpr, ...]]:
        return self.op, (self.left, self.right)


MIRRORED_OPERATORS = {
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
}  # the comparison that says the same with its sides swapped


@dataclass(frozen=True, slots=True)
class Is(NeverNull):
    """``is`` / ``is not``: null-safe equality, never null."""

    left: BoundExpr
    right: BoundExpr
    negated: bool


@dataclass(frozen=True, slots=True)
class Logic(BoundExpr):
    """``and`` / ``or``, three-valued."""

    op: str
    operands: tuple[BoundExpr, ...]

    @property
    def predicate(self) -> tuple[str, tuple[BoundExpr, ...]]:
        return self.op, self.operands


@dataclass(frozen=True, slots=True)
class TableRead(BoundExpr):
    """The row of `table` under `keys`, or its `column`; null if there is no row.

    With `all_keys` the array of all keys. `inside`: the table belongs to the context partition. `accumulator`: the
    accumulator of the column, for a method of its aggregate, not its value.
    """

    table: str
    keys: tuple[BoundExpr, ...]
    column: str | None
    all_keys: bool
    inside: bool
    accumulator: bool = False

    @property
    def named_property(self) -> tuple[str, str] | None:
        return None if self.column is None else (self.table, self.column)

    @property
    def how(self) -> str:
        """The kind of read: ``keys``, ``row``, ``read`` (a column's value) or ``accumulator`` (of a column)."""
        if self.all_keys:
            return "keys"
        return "row" if self.column is None else "accumulator" if self.accumulator else "read"


@dataclass(frozen=True, slots=True)
class LogicalNot(BoundExpr):
    """``not x``; null for null."""

    operand: BoundExpr

    @property
    def predicate(self) -> tuple[str, tuple[BoundExpr, ...]]:
        return "not", (self.operand,)


@dataclass(frozen=True, slots=True)
class BooleanCheck(BoundExpr):
    """A value of an event as a condition. The condition fails if the value is neither a boolean nor null."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class RangeTest(NeverNull):
    """``x between a and b`` and ``x in [a:b)``. A null anywhere gives false (also when negated).

    Both forms accept their bounds in either order, as recorded for ``x in [5:1]``.
    """

    operand: BoundExpr
    low: BoundExpr
    high: BoundExpr
    include_low: bool
    include_high: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class InList(BoundExpr):
    """``x in (a, b)``; operands may be arrays, whose elements then count. Null x gives null."""

    operand: BoundExpr
    options: tuple[BoundExpr, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class StringMatch(BoundExpr):
    """SQL like (``%`` and ``_``, `escape`) or, with `regexp`, a full match of a regular expression."""

    operand: BoundExpr
    pattern: BoundExpr
    escape: BoundExpr | None
    regexp: bool
    negated: bool


@dataclass(frozen=True, slots=True)
class CaseWhen(BoundExpr):
    """Branches are (condition, value); a ``case x when v`` is bound to conditions ``x = v`` (null-safe: is)."""

    branches: tuple[tuple[BoundExpr, BoundExpr], ...]
    default: BoundExpr | None

    @property
    def picked_from(self) -> tuple[BoundExpr, ...]:
        return (*(value for _, value in self.branches), *(() if self.default is None else (self.default,)))


@dataclass(frozen=True, slots=True)
class FunctionCall(BoundExpr):
    """A row of `functions.FUNCTIONS`, by name."""

    name: str
    args: tuple[BoundExpr, ...]

    @property
    def picked_from(self) -> tuple[BoundExpr, ...]:
        return self.args if self.name in FUNCTIONS and FUNCTIONS[self.name].picks else ()


@dataclass(frozen=True, slots=True)
class MethodCall(BoundExpr):
    """``receiver.method(…)``: a row of `methods.METHODS`, by name. Null for a null receiver."""

    name: str
    receiver: BoundExpr
    args: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class LambdaExpr(BoundExpr):
    """``(x, i) => body`` as an argument of a method; `type` is that of the body.

    Its parameters are the `LambdaParameter`s of its `level` (how many lambdas stand around it) with these `roles`. With
    `backwards` the method calls it from the last element to the first.
    """

    level: int
    roles: tuple[str, ...]
    body: BoundExpr
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class LambdaParameter(BoundExpr):
    """A parameter of the lambda of `level`: its element, index or size, or the result so far, by its `role`."""

    level: int
    role: str


@dataclass(frozen=True, slots=True)
class UserCall(BoundExpr):
    """A function registered with ``Runtime.register_function``; null if a `required` argument is null."""

    name: str
    args: tuple[BoundExpr, ...]
    required: tuple[bool, ...] = ()

    @property
    def python_function(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class UserClass(BoundExpr):
    """The class or function registered under `name`, with the number of values that it takes.

    For a window, `shape` has one letter per value: ``l`` for the values of all events, ``v`` for that of the newest
    event;
    capitals allow null.
    """

    name: str
    count: int
    shape: str = ""

    @property
    def python_function(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Convert(BoundExpr):
    """Widening or ``cast`` of `operand` to `type`; a failing parse of a string raises at run time."""

    operand: BoundExpr

    @property
    def copied_property(self) -> Prop | None:
        before, after = BITS.get(self.operand.type.name), BITS.get(self.type.name)
        widened = before is not None and after is not None and before <= after
        return self.operand.copied_property if widened else None


@dataclass(frozen=True, slots=True)
class ArrayOf(NeverNull):
    """``{a, b}``; elements may be null, the array never is."""

    elements: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class StructOf(NeverNull):
    """``new {a = 1}``"""

    columns: tuple[tuple[str, BoundExpr], ...]


@dataclass(frozen=True, slots=True)
class InstanceOf(NeverNull):
    """``instanceof(x, int, string)``: whether the value has one of `types` at run time."""

    operand: BoundExpr
    types: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class Period(BoundExpr):
    """A time period: calendar `months` (years are 12) plus `millis`; both may be any numeric expression.

    Microseconds are rounded into `millis` by the binder under millisecond resolution. Type is LONG (ms) for
    periods without months.
    """

    months: BoundExpr | None
    millis: BoundExpr | None

    @property
    def period_parts(self) -> tuple[BoundExpr | None, BoundExpr | None]:
        return self.months, self.millis

    @property
    def constant_millis(self) -> int | float | None:
        millis = self.millis.value if self.months is None and isinstance(self.millis, Const) else None
        return millis if isinstance(millis, int | float) else None


def equality_sides(condition: BoundExpr) -> tuple[tuple[BoundExpr, BoundExpr], ...]:
    """Return the sides of ``a = b`` in both orders; nothing for any other condition."""
    if isinstance(condition, ComparisonExpr) and condition.op == "=":
        return (condition.left, condition.right), (condition.right, condition.left)
    return ()


def conjuncts(e: BoundExpr | None) -> list[BoundExpr]:
    """Return the operands of a condition's top-level ``and``, however nested; none for None."""
    if e is None:
        return []
    if isinstance(e, Logic) and e.op == "and":
        return [conjunct for operand in e.operands for conjunct in conjuncts(operand)]
    return [e]


def conjunction(conditions: Sequence[BoundExpr]) -> BoundExpr | None:
    """Return the condition that all `conditions` hold; None for none."""
    if not conditions:
        return None
    first = conditions[0]
    return first if len(conditions) == 1 else Logic(BOOLEAN, "and", tuple(conditions), span=first.span)


def is_positive_period(period: BoundExpr) -> bool:
    """Return whether a period is a constant above 0."""
    parts = [e for e in period.period_parts if e is not None]
    values = [e.value for e in parts if isinstance(e, Const)]
    return len(values) == len(parts) and any(isinstance(v, (int, float)) and v > 0 for v in values)
