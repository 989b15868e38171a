"""The scope of generated expressions, and the table of code by kind of expression.

`RENDERERS` has a function for each class of bound expressions, which returns the code of its value. The table is filled
in `to_python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x


class ReadableVariable(Protocol):
    """The cell of a variable. Generated code reads `value`; `listeners` are called after each assignment. Filters of
    events read `before`: the value before any statement handled the present event.
    """

    value: Any
    before: Any
    listeners: list[Callable[..., None]]
    name: str

    @property
    def partitioned(self) -> bool:
        """True if each context partition has a value of its own."""

    def decide(self) -> None:
        """Note that a filter reads the variable."""


def _refused(e: x.BoundExpr) -> NoReturn:
    raise Refusal("no-row", f"`{type(e).__name__.lower()}` can be used only where rows are made")


@dataclass(frozen=True)
class RowCode:
    """The code of expressions that depend on more than one event, at the place that is being written.

    Expressions without a function here have no meaning at the place.
    """

    prev: Callable[[x.Prev], str] = _refused
    prior: Callable[[x.Prior], str] = _refused
    insert_stream: Callable[[x.InsertStream], str] = _refused
    grouping: Callable[[x.Grouping], str] = _refused
    measure_aggregate: Callable[[x.MeasureAggregate], str] = _refused
    matched_row: Callable[[x.MatchedRow], str] = _refused


PropertyKey = tuple[int, str]  # (input of the statement, property)


@dataclass(frozen=True)
class CodeScope:
    """The code of each part of an expression at the place that is being written.

    `props` maps (input, property) to code, so equal names of two inputs do not clash. `events` maps an input to its
    whole event. `aggregates` and `keys` are the code of aggregate values and group keys, `partition` and `now` that of
    the context partition and of engine time.

    `variables` are the cells of variables. `assigned` is the code of new values that are not in their cells yet. With
    `deciding` variables are read as they were before any statement handled the event. Without `checks` a condition does
    not fail where a value of an event is no boolean, since the event has failed already.

    `window` maps the built-ins of window conditions to code. `row` has the code of ``prev``, ``prior``, ``istream`` and
    the like. `second` is the number of clock units in a second, `zone` the
    time zone of calendar months.

    `subqueries` are the functions that look up subqueries, `state` is the statement's state, which contains theirs, and
    `parameters` are, within a subquery, the values of the outer statement.
    """

    source: SourceWriter
    props: Mapping[PropertyKey, str]
    events: Mapping[int, str] = field(default_factory=dict)
    aggregates: Sequence[str] = ()
    keys: Sequence[str] = ()
    partition: str = "S.partition"
    now: str = "clock.now"
    integer_division: bool = False
    division_by_zero_null: bool = False
    self_subselect_preeval: bool = True
    compensated_sums: bool = False
    second: int = 1000
    zone: str = "UTC"
    user_functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    variables: Mapping[str, ReadableVariable] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    deciding: bool = False
    checks: bool = True
    window: Mapping[str, str] = field(default_factory=dict)
    row: RowCode = RowCode()
    subqueries: Sequence[str] = ()
    state: str = "S"
    parameters: Sequence[str] = ()

    @property
    def calendar(self) -> str:
        """The code of the unit of calendar months: a second in clock units and, if not UTC, the zone."""
        return str(self.second) if self.zone == "UTC" else f"{self.second}, {self.source.const(self.zone, 'zone')}"

    @property
    def rules(self) -> tuple[object, ...]:
        """The settings that generated code depends on."""
        return self.integer_division, self.division_by_zero_null, self.compensated_sums, self.second, self.zone

    def at(self, **changes: object) -> CodeScope:
        """Return the scope with `changes`."""
        scope = object.__new__(CodeScope)
        scope.__dict__.update(self.__dict__, **changes)  # a tenth of what `replace` takes
        return scope


# Returns the scope of a new module: without properties, but with the engine's clock, rules and functions
ScopeFactory = Callable[[SourceWriter], CodeScope]


def bound_name(scope: CodeScope, function: Callable[..., object]) -> str:
    """Bind a function into the module and return its name there."""
    return scope.source.bind(f"_{function.__name__}", function)


def value(scope: CodeScope, e: x.BoundExpr) -> str:
    """Return a Python expression with the value of `e`."""
    lower = RENDERERS.get(type(e))
    if lower is None:
        raise Refusal("no-lowering", f"the row engine does not support {type(e).__name__}")
    return lower(scope, e)


RENDERERS: dict[type, Callable[..., str]] = {}


def null_checked(scope: CodeScope, *exprs: x.BoundExpr) -> tuple[list[str], list[str]]:
    """Return the code of each operand, which may be repeated, and the null checks in the order of evaluation."""
    codes: list[str] = []
    checks: list[str] = []
    for e in exprs:
        code = value(scope, e)
        if not e.nullable and not x.children(e):
            codes.append(code)
        elif code.isidentifier():
            codes.append(code)
            if f"{code} is not None" not in checks:
                checks.append(f"{code} is not None")
        else:
            temporary = scope.source.temporary()
            codes.append(temporary)
            checks.append(f"({temporary} := {code}) is not None")
    return codes, checks


def unless_null(checks: list[str], code: str) -> str:
    return code if not checks else f"({code} if {' and '.join(checks)} else None)"
