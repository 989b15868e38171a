"""Type checks for comparison and assignment, common types of several values, and conversions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang import types as t
from cepbook.lang.bind.scope import ERROR
from cepbook.lang.plan import expressions as x
from cepbook.lang.rewrite.fold_constants import fold_expr_node
from cepbook.lang.types import Type

TEXT_TYPES = (t.STRING, t.CHAR)
UNTYPED = (ERROR, t.NULL, t.OBJECT)


def comparable(left: Type, right: Type) -> bool:
    """Return whether ``left = right`` is defined."""
    if _differ_in_elements(left, right):
        return False
    if left in UNTYPED or right in UNTYPED or left == right:
        return True
    if t.is_numeric(left) and t.is_numeric(right):
        return True
    if left.of is not None and right.of is not None:
        return comparable(left.of, right.of)
    return left.name == right.name and left.event is None


def _differ_in_elements(left: Type, right: Type) -> bool:
    """Return whether one is an array of primitive values and the other an array of objects."""
    return left.primitive is not None and right.primitive is not None and left.primitive != right.primitive


def orderable(left: Type, right: Type) -> bool:
    """Return whether ``left < right`` is defined."""
    both = [type_ for type_ in (left, right) if type_ not in UNTYPED]
    alike = all(b in t.DATES and b == both[0] for b in both)
    return all(t.is_numeric(b) for b in both) or all(b in TEXT_TYPES for b in both) or alike


def sortable(type_: Type) -> bool:
    """Return whether values of the type have an order."""
    return t.is_numeric(type_) or type_ in (*TEXT_TYPES, *UNTYPED, t.BOOLEAN, *t.DATES)


def common_type(types: Sequence[Type]) -> Type | None:
    """Return the type that holds values of all of `types`, or None if there is none."""
    joined_type: Type = t.NULL
    for type_ in types:
        if ERROR in (type_, joined_type):
            joined_type = ERROR
        elif _differ_in_elements(joined_type, type_):
            return None
        elif type_ == t.NULL or type_ == joined_type:
            continue
        elif joined_type == t.NULL:
            joined_type = type_
        elif t.is_numeric(joined_type) and t.is_numeric(type_):
            joined_type = t.promote(joined_type, type_)
        elif joined_type in TEXT_TYPES and type_ in TEXT_TYPES:
            joined_type = t.STRING
        elif t.OBJECT in (joined_type, type_):
            joined_type = t.OBJECT
        elif joined_type.fields is not None and type_.fields is not None:
            joined = _common_struct(joined_type.fields, type_.fields)
            if joined is None:
                return None
            joined_type = joined
        else:
            return None
    return joined_type


_Fields = tuple[tuple[str, Type], ...]


def _common_struct(some: _Fields, others: _Fields) -> Type | None:
    columns = dict(others)
    if [name for name, _ in some if name not in columns] or len(some) != len(others):
        return None
    joined = [(name, common_type((type_, columns[name]))) for name, type_ in some]
    fields = tuple((name, type_) for name, type_ in joined if type_ is not None)
    return t.struct_of(fields) if len(fields) == len(joined) else None


def python_kind(type_: Type) -> str:
    """Return a name for the Python type of the values; types with the same name need no conversion."""
    if t.is_integral(type_):
        return "int"
    if type_ in (t.FLOAT, t.DOUBLE):
        return "float"
    return "decimal" if type_ == t.BIGDECIMAL else str(type_)


def coerce(e: x.BoundExpr, target: Type) -> x.BoundExpr:
    """Return `e` converted to the numeric type `target`, or its columns to those of a struct, also in an array."""
    if isinstance(e, x.StructOf) and target.fields is not None:
        types = dict(target.fields)
        return replace(e, type=target, columns=tuple((name, coerce(value, types[name])) for name, value in e.columns))
    if _has_other_columns(e.type, target):
        return x.Convert(target, e, span=e.span)
    if e.type == target or not t.is_numeric(target) or not t.is_numeric(e.type):
        return e
    if python_kind(e.type) == python_kind(target):
        return replace(e, type=target) if isinstance(e, x.Const) else e
    return fold_expr_node(x.Convert(target, e, span=e.span))


def _has_other_columns(source: Type, target: Type) -> bool:
    """Return whether structs of the type `source` hold values that `target` has in another form."""
    if source.of is not None and target.of is not None:
        return _has_other_columns(source.of, target.of)
    columns = dict(target.fields or ()) if source.fields is not None else {}
    return any(
        _has_other_columns(type_, columns[name])
        or (t.is_numeric(type_) and t.is_numeric(columns[name]) and python_kind(type_) != python_kind(columns[name]))
        for name, type_ in source.fields or ()
        if name in columns
    )


def cast_hint(source: Type, target: Type) -> str | None:
    """Return the hint to cast a number or text to `target`, or None."""
    castable = all(t.is_numeric(type_) or type_ == t.STRING for type_ in (source, target))
    return f"cast it: cast(…, {target})" if castable else None


def assignable(source: Type, target: Type) -> bool:
    """Return whether a column of `source` fits a property of `target`: the types are equal, or a number widens."""
    if source == target or source in (ERROR, t.NULL) or target in (ERROR, t.OBJECT):
        return True
    if t.is_numeric(source) and t.is_numeric(target):
        inexact = source == t.BIGINTEGER and target in (t.FLOAT, t.DOUBLE)
        return t.NUMERIC.index(source) <= t.NUMERIC.index(target) and not inexact
    if source.of is not None and target.of is not None:
        return assignable(source.of, target.of)
    if source.name == "struct":
        return target == t.MAP or target.event is not None
    return source == t.CHAR and target == t.STRING


def comparable_operands(left: x.BoundExpr, right: x.BoundExpr) -> tuple[x.BoundExpr, x.BoundExpr]:
    """Return both sides of a comparison as values that Python compares as Java does.

    If one side is bigdecimal and the other a floating-point number, both become bigdecimal. A float next to a double is
    rounded to single precision first (recorded: 1.1 as float is not 1.1 as double), because events that bypass the
    workbench hold any Python number.
    """
    floating = (t.FLOAT, t.DOUBLE)
    if left.type == t.BIGDECIMAL and right.type in floating:
        return left, coerce(right, t.BIGDECIMAL)
    if right.type == t.BIGDECIMAL and left.type in floating:
        return coerce(left, t.BIGDECIMAL), right
    if {left.type, right.type} == set(floating):
        return _single(left), _single(right)
    return left, right


def _single(e: x.BoundExpr) -> x.BoundExpr:
    if e.type != t.FLOAT or isinstance(e, (x.Const, x.Arith, x.Convert, x.FunctionCall)):
        return e
    return x.FunctionCall(t.FLOAT, "single precision", (e,), span=e.span)
