"""Where generated expressions stand, and how each kind of expression finds its code.

`RENDERERS` has a function for each class of bound expressions: code of its value from the scope and the expression. The
table is filled in `cepbook.engine.expressions.to_python`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x


class ReadableVariable(Protocol):
    """What holds a variable: generated code reads `value` at each evaluation; `listeners` are told of each change.

    Filters of events read `before`: the value as the event in hand began.
    """

    value: Any
    before: Any
    listeners: list[Callable[..., None]]
    name: str

    @property
    def partitioned(self) -> bool:
        """Whether the value is that of a context partition."""

    def decide(self) -> None:
        """A filter reads it."""


PropertyKey = tuple[int, str]  # (input of the statement, property)


@dataclass(frozen=True, slots=True)
class CodeScope:
    """Where the parts of an expression are found at the place that the code is written for.

    `props` maps (input, property) to code: two inputs with a property of one name never meet. `events` are the whole
    events, by input, `aggregates` and `keys` hold the code of aggregate values and group keys, `partition`
    the context partition and `now` engine time. `variables` has the cells of variables, `assigned` the code of new
    values that are not in their cells yet; what is `deciding` whether an event is for a statement reads variables as
    they were before any statement took the event. `window` maps the built-ins of window conditions to code; `row` the
    code of what depends on the place of the row (``prev``, ``prior``, ``istream``, ``grouping``). `second` is how many
    units of the clock a second has, `zone` the time zone of calendar months. `subqueries` are the functions that look
    up what the statement's subqueries give, `state` is the statement's state, which has theirs, and `parameters` are,
    in one, the values from around it.
    """

    source: SourceWriter
    props: Mapping[PropertyKey, str]
    events: Mapping[int, str] = field(default_factory=dict)
    aggregates: Sequence[str] = ()
    keys: Sequence[str] = ()
    partition: str = "S[0]"
    now: str = "clock.now"
    integer_division: bool = False
    division_by_zero_null: bool = False
    compensated_sums: bool = False
    second: int = 1000
    zone: str = "UTC"
    user_functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    variables: Mapping[str, ReadableVariable] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    deciding: bool = False
    window: Mapping[str, str] = field(default_factory=dict)
    row: Callable[[x.BoundExpr], str] | None = None
    subqueries: Sequence[str] = ()
    state: str = "S"
    parameters: Sequence[str] = ()

    @property
    def calendar(self) -> str:
        """Code of what calendar months are counted in: a second in units of the clock and, if not UTC, the zone."""
        return str(self.second) if self.zone == "UTC" else f"{self.second}, {self.source.const(self.zone, 'zone')}"

    def at(self, **changes: object) -> CodeScope:
        """The same scope with other places."""
        return replace(self, **changes)  # type: ignore[arg-type]


# The scope of what is written into a source: no properties yet, but the engine's clock, rules and functions
ScopeFactory = Callable[[SourceWriter], CodeScope]


def bound_name(scope: CodeScope, function: Callable[..., object]) -> str:
    """The name under which generated code calls one of `support`'s functions."""
    return scope.source.bind(f"_{function.__name__}", function)


def value(scope: CodeScope, e: x.BoundExpr) -> str:
    """A Python expression with the value of `e`."""
    lower = RENDERERS.get(type(e))
    if lower is None:
        raise Refusal("no-lowering", f"the row engine has no code for {type(e).__name__}")
    return lower(scope, e)


RENDERERS: dict[type, Callable[..., str]] = {}


# ------------------------------------------------------------------ null checks
def nullable(e: x.BoundExpr) -> bool:
    """Whether the value can be null."""
    if isinstance(e, x.Const):
        return e.value is None
    if isinstance(e, (x.Concat, x.Negate, x.ComparisonExpr)):
        return any(nullable(c) for c in x.children(e))
    if isinstance(e, x.Arith):
        return e.op in "/%" or nullable(e.right) or nullable(e.left)
    return not isinstance(e, (x.CurrentTimestamp, x.Is, x.RangeTest, x.ArrayOf, x.StructOf, x.InstanceOf))


def null_checked(scope: CodeScope, *exprs: x.BoundExpr) -> tuple[list[str], list[str]]:
    """Code for each operand that may be repeated after its check, and the null checks in evaluation order."""
    codes: list[str] = []
    checks: list[str] = []
    for e in exprs:
        code = value(scope, e)
        if not nullable(e) and not x.children(e):
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
