"""Bound expressions: every name resolved, every node typed. Engines lower these and nothing else.

Null propagates through every node unless its docstring says otherwise: `Compare`, `Arith`, `Concat`, `Like`
give null when an operand is null; `Logic` is three-valued; a null condition rejects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class BoundExpr:
    """`type` is the EPL type of the value; `span` its text in the statement's source."""

    type: Type
    span: Span = field(default=NO_SPAN, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class Const(BoundExpr):
    """A constant; `value` is a plain Python value as in `types`."""

    value: object


@dataclass(frozen=True, slots=True)
class Prop(BoundExpr):
    """Property `name` of the event of stream `stream` (0-based position in the from-clause)."""

    stream: int
    name: str


@dataclass(frozen=True, slots=True)
class MemberAccess(BoundExpr):
    """``target.name`` on a nested event or map; null when the target is null or lacks it."""

    target: BoundExpr
    name: str


@dataclass(frozen=True, slots=True)
class IndexAccess(BoundExpr):
    """``target[index]`` (0-based) on an array, ``target('key')`` on a map; null when out of range or absent."""

    target: BoundExpr
    index: BoundExpr


@dataclass(frozen=True, slots=True)
class EventOf(BoundExpr):
    """The whole event of a stream, as a value."""

    stream: int


@dataclass(frozen=True, slots=True)
class EventTypeName(BoundExpr):
    """``typeof(event)``: the name of the type that it arrived with; of one within another it is `declared`."""

    event: BoundExpr
    declared: str


@dataclass(frozen=True, slots=True)
class ContextProp(BoundExpr):
    """``context.name``: a built-in property of the context partition (id, name, key1, …)."""

    name: str


@dataclass(frozen=True, slots=True)
class CurrentTimestamp(BoundExpr):
    """Engine time in milliseconds, of the delivery."""


@dataclass(frozen=True, slots=True)
class VariableRead(BoundExpr):
    """The present value of variable `name`, read at each evaluation. Constant variables are bound as `Const`."""

    name: str


@dataclass(frozen=True, slots=True)
class Prev(BoundExpr):
    """``prev``, ``prevtail``, ``prevwindow``, ``prevcount``: other events of the data window of the row's event.

    `kind` ``prev``: `value` of the event `index` places before the newest (in a batch: before the row's own); ``tail``:
    `index` places from the oldest; ``window``: `value` of all, newest first; ``count``: how many (no `value`).
    Null in rows of the remove stream, and for an index that is null or beyond the window.
    """

    kind: str
    index: BoundExpr | None
    value: BoundExpr | None


@dataclass(frozen=True, slots=True)
class Prior(BoundExpr):
    """``prior(index, value)``: `value` of the event `index` (a constant) arrivals before the row's own in the stream.

    Fixed at arrival: it keeps its value in the remove stream. Null where there was none.
    """

    index: int
    value: BoundExpr


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
    """A built-in of ``output when``: count_insert, count_insert_total, count_remove, count_remove_total,
    last_output_timestamp.
    """

    name: str


@dataclass(frozen=True, slots=True)
class AggregateRef(BoundExpr):
    """The current value of call `index` of the statement's `Aggregation`."""

    index: int


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


@dataclass(frozen=True, slots=True)
class KeyRef(BoundExpr):
    """The value of group-by key `index` of the current group (used for properties of fully aggregated rows)."""

    index: int


@dataclass(frozen=True, slots=True)
class SharedExpr(BoundExpr):
    """`operand`, which several columns of one row read, and which is evaluated once for them."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class MatchedRow(BoundExpr):
    """``B.firstOf()``, ``B.lastOf()``, ``B.countOf()``, ``B[1]`` over the `rows` of a variable of match_recognize: what
    they give, found without a list of all rows.
    """

    which: Literal["first", "last", "number", "at"]
    rows: BoundExpr
    index: int | None = None


@dataclass(frozen=True, slots=True)
class SubqueryRef(BoundExpr):
    """What subquery `index` of the statement gives, by its form (`plan.Subquery`).

    `args` are evaluated where it stands: the values that its `Parameter`s mean, in order.
    """

    index: int
    args: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class SubqueryParameter(BoundExpr):
    """Within a subquery: a value from around it, number `index` of the `SubqueryRef`'s arguments."""

    index: int


@dataclass(frozen=True, slots=True)
class Arith(BoundExpr):
    """``+ - * /  %`` and bitwise ``& | ^``. `type` is the promoted result type and rules the arithmetic:

    int and long wrap around as in Java, ``/`` is floating division unless Config.integer_division,
    division by zero gives ±Infinity or NaN (Config.division_by_zero_null: null), ``%`` keeps the dividend's sign.
    """

    op: str
    left: BoundExpr
    right: BoundExpr


@dataclass(frozen=True, slots=True)
class Negate(BoundExpr):
    """``-x``; null for null, and the smallest whole number of `type` stays as it is."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class Concat(BoundExpr):
    """``a || b``; non-strings print as Java prints them; null if any operand is null."""

    operands: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class ComparisonExpr(BoundExpr):
    """``= != < <= > >=``; null if a side is null."""

    op: str
    left: BoundExpr
    right: BoundExpr


MIRRORED_OPERATORS = {
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
}  # the comparison that says the same with its sides swapped


@dataclass(frozen=True, slots=True)
class Is(BoundExpr):
    """``is`` / ``is not``: null-safe equality, never null."""

    left: BoundExpr
    right: BoundExpr
    negated: bool


@dataclass(frozen=True, slots=True)
class Logic(BoundExpr):
    """``and`` / ``or``, three-valued."""

    op: str
    operands: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class TableRead(BoundExpr):
    """What table `table` has now under `keys`: a `column`, null where there is no row; without one the row as a map.

    With `all_keys` it is the array of all keys. `inside`: of the table of the context partition. `held`: what the
    column's aggregate holds its events in, for a method of it, in place of the value.
    """

    table: str
    keys: tuple[BoundExpr, ...]
    column: str | None
    all_keys: bool
    inside: bool
    held: bool = False

    @property
    def how(self) -> str:
        """What of the table is asked for: its `keys`, a whole `row`, the value of a column, or what that holds."""
        return "keys" if self.all_keys else "row" if self.column is None else "held" if self.held else "read"


@dataclass(frozen=True, slots=True)
class LogicalNot(BoundExpr):
    """``not x``; null for null."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class RangeTest(BoundExpr):
    """``x between a and b`` and ``x in [a:b)``. A null anywhere gives false (also when negated).

    Both forms accept their bounds in either order (`ordered` False), as recorded for ``x in [5:1]``.
    """

    operand: BoundExpr
    low: BoundExpr
    high: BoundExpr
    include_low: bool
    include_high: bool
    ordered: bool
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


@dataclass(frozen=True, slots=True)
class FunctionCall(BoundExpr):
    """A row of `functions.FUNCTIONS`, by name."""

    name: str
    args: tuple[BoundExpr, ...]


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
    """A function registered with ``Runtime.register_function``; null when one of those `required` is null."""

    name: str
    args: tuple[BoundExpr, ...]
    required: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class UserClass(BoundExpr):
    """The class or function that is registered under `name`, with the number of values that it takes.

    Of a window `shape` has a letter for each of these: ``l`` the values of all events, ``v`` that of the newest one, in
    capitals where null is allowed.
    """

    name: str
    count: int
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Convert(BoundExpr):
    """Widening or ``cast`` of `operand` to `type`; a failing parse of a string raises at run time."""

    operand: BoundExpr


@dataclass(frozen=True, slots=True)
class ArrayOf(BoundExpr):
    """``{a, b}``; elements may be null, the array never is."""

    elements: tuple[BoundExpr, ...]


@dataclass(frozen=True, slots=True)
class StructOf(BoundExpr):
    """``new {a = 1}``"""

    columns: tuple[tuple[str, BoundExpr], ...]


@dataclass(frozen=True, slots=True)
class InstanceOf(BoundExpr):
    """``instanceof(x, int, string)``: whether the run-time value is one of `types`; ``typeof`` is a Call."""

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


def children(e: BoundExpr) -> tuple[BoundExpr, ...]:
    """The direct operands of `e`, in evaluation order."""
    names = operand_fields(type(e))
    if not names:
        return ()
    found: list[BoundExpr] = []
    for name in names:
        _collect(getattr(e, name), found)
    return tuple(found)


def operand_fields(kind: type[BoundExpr]) -> tuple[str, ...]:
    """The names of the fields of a class that may hold expressions."""
    names = _OPERANDS.get(kind)
    if names is None:
        fields_ = kind.__dataclass_fields__.values()
        names = _OPERANDS[kind] = tuple(
            each.name for each in fields_ if "BoundExpr" in re.findall(r"\w+", str(each.type))
        )
    return names


_OPERANDS: dict[type[BoundExpr], tuple[str, ...]] = {}


def _collect(value: object, found: list[BoundExpr]) -> None:
    if isinstance(value, BoundExpr):
        found.append(value)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)


def walk(e: BoundExpr) -> list[BoundExpr]:
    """`e` and everything below it, parents first."""
    found: list[BoundExpr] = []
    open_ = [e]
    while open_:
        part = open_.pop()
        found.append(part)
        inner = children(part)
        if inner:
            open_.extend(reversed(inner))
    return found


def conjuncts(e: BoundExpr | None) -> list[BoundExpr]:
    """The operands of a condition's top-level ``and``, however nested; none for None (no condition)."""
    if e is None:
        return []
    if isinstance(e, Logic) and e.op == "and":
        return [part for operand in e.operands for part in conjuncts(operand)]
    return [e]


def is_positive_period(period: BoundExpr) -> bool:
    """Whether a period is a constant above 0."""
    parts: list[BoundExpr] = [period]
    if isinstance(period, Period):
        parts = [e for e in (period.months, period.millis) if e is not None]
    values = [e.value for e in parts if isinstance(e, Const)]
    return len(values) == len(parts) and any(isinstance(v, (int, float)) and v > 0 for v in values)
