"""Expressions, except those that contain a select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as L

from cepbook.lang.syntax.ast.syntax_node import SyntaxNode


@dataclass(frozen=True, slots=True)
class Expr(SyntaxNode):
    @property
    def literal(self) -> Literal | None:
        """The literal that the expression is; None for all other expressions."""
        return None


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """`type` is one of byte int long float double string boolean null (by form: 0x10, 5, 5L, 5f, 5.0, 1e3).

    The value of a parameter may also be of type biginteger or bigdecimal; `written` is then how it stands in the text.
    """

    value: object
    type: str
    written: str = ""

    @property
    def literal(self) -> Literal:
        return self


@dataclass(frozen=True, slots=True)
class Parameter(Expr):
    """``:name``, ``?:name``, ``?:name:int``: a value passed when the module is compiled; ``?`` by its number."""

    name: str | int
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class NameStep(SyntaxNode):
    """One step of a chain: ``name``, ``name[3]``, ``name('key')``, ``name(args)``, each maybe ``?``.

    A call has `args` not None; an index (array property) has `index`. The mapped property ``m('k')`` and
    a function call look alike: the binder decides. `distinct`, `wildcard` are ``f(distinct x)``, ``f(*)``
    (`args` then hold the other arguments); ``f(alias.*)`` has a `Star` among `args`. Named parameters
    (``filter:``, ``group_by:``) are in `named`. ``T[a, b]`` has a `Tuple_` as index; a second index
    (``m[0][1]``) and an index behind a call are a step of their own with the empty name.
    """

    name: str
    args: tuple[Expr, ...] | None = None
    index: Expr | None = None
    optional: bool = False
    distinct: bool = False
    wildcard: bool = False
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    escaped: bool = False


@dataclass(frozen=True, slots=True)
class Chain(Expr):
    """A dotted chain: property path, function call, method chain, enum constant: ``a.b[0].where(x => x > 1)``."""

    steps: tuple[NameStep, ...]


@dataclass(frozen=True, slots=True)
class Member(Expr):
    """A chain that continues a parenthesised expression, subquery or array: ``(expr).method()``, ``(expr)[0]``."""

    target: Expr
    steps: tuple[NameStep, ...]


@dataclass(frozen=True, slots=True)
class Star(Expr):
    """``*`` as a parameter (``count(*)`` uses NameStep.wildcard) or ``alias.*`` as one."""

    stream: str | None = None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: L["-", "+", "not"]
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """Arithmetic ``+ - * / % & | ^``, concatenation ``||``."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Logical(Expr):
    """``and`` / ``or``, flattened."""

    op: L["and", "or"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    """``= != < <= > >= is is not``. ``<>`` is normalised to ``!=``."""

    op: L["=", "!=", "<", "<=", ">", ">=", "is", "is not"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class QuantifiedCompare(Expr):
    """``x > any (…)``, ``x = all (subquery or list)``; ``some`` is normalised to ``any``."""

    op: str
    quantifier: L["any", "all"]
    left: Expr
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Between(Expr):
    operand: Expr
    low: Expr
    high: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In(Expr):
    """``x in (a, b)``; ``x in [low:high)`` has `range_` = the two brackets and two operands."""

    operand: Expr
    operands: tuple[Expr, ...]
    negated: bool = False
    range_: str | None = None


@dataclass(frozen=True, slots=True)
class Like(Expr):
    operand: Expr
    pattern: Expr
    escape: Expr | None = None
    negated: bool = False
    regexp: bool = False


@dataclass(frozen=True, slots=True)
class Case(Expr):
    """``case [operand] when … then … [else …] end``."""

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None


@dataclass(frozen=True, slots=True)
class ArrayLiteral(Expr):
    """``{1, 2, 3}``, or an array passed for a parameter, which is `written` so."""

    elements: tuple[Expr, ...]
    written: str = ""


@dataclass(frozen=True, slots=True)
class NewStruct(Expr):
    """``new { a = 1, b }``"""

    columns: tuple[tuple[str, Expr | None], ...]


@dataclass(frozen=True, slots=True)
class NewInstance(Expr):
    """``new Type<int>(args)``, ``new int[3]``, ``new int[] {1,2}``."""

    type_name: str
    args: tuple[Expr, ...]
    array: bool = False
    dimensions: tuple[Expr | None, ...] = ()
    type_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """``cast(x as type)`` / ``cast(x, type, named: …)``"""

    operand: Expr
    type_name: str
    named: tuple[tuple[str, tuple[Expr, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class TypeTest(Expr):
    """``instanceof(x, t1, t2)``"""

    operand: Expr
    type_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    """``x => expr``, ``(x, i) => expr``"""

    params: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class TimePeriod(Expr):
    """``1 hour 30 min``: (amount, unit) pairs, units normalised to singular long form (``minute``)."""

    parts: tuple[tuple[Expr, str], ...]


@dataclass(frozen=True, slots=True)
class Tuple_(Expr):
    """``(a, b)``: composite keys in group by and grouping sets, crontab lists."""

    elements: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SortKey(Expr):
    """``price desc`` as a parameter of sort windows and of sorted, maxby …; without asc or desc a plain expression."""

    operand: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class CronStep(Expr):
    """One crontab field. `kind` and `operands`: star ``*`` (); step ``*/5`` (5,); range ``2:7`` (2, 7);

    list ``[a, b]`` (fields); last ``last`` (); nth_last ``5 last`` (5,); weekday ``10 weekday`` (10,);
    lastweekday (). A plain number or variable is that expression itself.
    """

    kind: str
    operands: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Crontab(Expr):
    """``(0, 9, *, *, *)``, also ``*crontab*`` parameters of ``timer:at``."""

    fields: tuple[Expr, ...]
