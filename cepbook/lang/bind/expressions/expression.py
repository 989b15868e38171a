"""Expressions: every name is resolved, every operator typed (Esper reference, chapters Expressions, Operators).

A wrong subexpression is reported once and becomes an expression of type ERROR, which every operator accepts silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import (
    TEXT_TYPES,
    UNTYPED,
    coerce,
    common_type,
    comparable,
    comparable_operands,
    orderable,
)
from cepbook.lang.bind.expressions import chain
from cepbook.lang.bind.expressions.cast import bind_cast, bind_type_name
from cepbook.lang.bind.expressions.date_operands import bind_distance, read_dates
from cepbook.lang.bind.expressions.new_array import bind_new_array
from cepbook.lang.bind.expressions.time_period import bind_period
from cepbook.lang.bind.expressions.value_access import apply_steps
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Scope, builtin_type, error_expression, type_text
from cepbook.lang.java.character_classes import UnknownCharacterClass, to_python_pattern
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import SubqueryForm
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import is_enumeration_method
from cepbook.lang.rewrite.fold_constants import fold_expr_node
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type


def bind_expr(node: ast.Expr, scope: Scope) -> x.BoundExpr:
    """Return the bound form of `node`, of type ERROR if something in it was reported."""
    rule = _RULES.get(type(node))
    try:
        if rule is None:
            scope.reject(f"{type(node).__name__.lower()} has no meaning here", node.span)
        return rule(node, scope)
    except AlreadyReported:
        return error_expression(node.span)


def bind_condition(node: ast.Expr, scope: Scope, where: str) -> x.BoundExpr:
    """Bind a boolean expression; `where` names the clause in the diagnostic."""
    bound = bind_expr(node, scope)
    if bound.type not in (t.BOOLEAN, ERROR) and not _untyped_call(bound):
        fact = f"{where} must be boolean, found {type_text(bound.type)}"
        scope.report("type-mismatch", fact, node.span, "write a comparison, such as x > 0")
        return error_expression(node.span)
    return bound


def bind_clause(node: ast.Expr, scope: Scope, clause: str) -> x.BoundExpr:
    """Bind the condition of where or having. Unlike a filter, it refuses values of events that are not boolean."""
    return _checked(bind_condition(node, scope, clause))


def _checked(e: x.BoundExpr) -> x.BoundExpr:
    if isinstance(e, x.Logic):
        return replace(e, operands=tuple(map(_checked, e.operands)))
    if isinstance(e, x.LogicalNot):
        return replace(e, operand=_checked(e.operand))
    picked = isinstance(e, x.FunctionCall) and FUNCTIONS[e.name].nulls == "skipped"
    of_event = (picked or isinstance(e, _OF_EVENT)) and e.type == t.BOOLEAN
    return x.BooleanCheck(t.BOOLEAN, e, span=e.span) if of_event else e


_OF_EVENT = (x.Prop, x.MemberAccess, x.IndexAccess, x.Prev, x.Prior, x.AggregateRef, x.CaseWhen)


def _untyped_call(e: x.BoundExpr) -> bool:
    return isinstance(e, x.UserCall) and e.type == t.OBJECT


def _literal(node: ast.Literal, scope: Scope) -> x.BoundExpr:
    return x.Const(t.NULL if node.type == "null" else t.BY_NAME[node.type], node.value, span=node.span)


def _parameter(node: ast.Parameter, scope: Scope) -> x.BoundExpr:
    text = f"`:{node.name}`" if isinstance(node.name, str) else "the parameter `?`"
    scope.fail("unknown-parameter", f"{text} has no value", node.span, "give it one: parameters={…}")


def _unary(node: ast.Unary, scope: Scope) -> x.BoundExpr:
    operand = bind_expr(node.operand, scope)
    if node.op == "not":
        _check_type(operand, t.BOOLEAN, "`not`", scope)
        return x.LogicalNot(t.BOOLEAN, operand, span=node.span)
    if operand.type != ERROR and not t.is_numeric(operand.type):
        scope.mismatch(f"unary `{node.op}` is not defined for {type_text(operand.type)}", node.span)
    if node.op == "+" or operand.type == ERROR:
        return operand
    type_ = t.INT if operand.type in (t.BYTE, t.SHORT) else operand.type
    return fold_expr_node(x.Negate(type_, operand, span=node.span))


def _check_type(operand: x.BoundExpr, type_: Type, what: str, scope: Scope) -> None:
    if operand.type not in (type_, ERROR) and not _untyped_call(operand):
        scope.mismatch(f"{what} needs {type_} operands, found {type_text(operand.type)}", operand.span)


def _binary(node: ast.Binary, scope: Scope) -> x.BoundExpr:
    later = [node]
    while isinstance(later[-1].left, ast.Binary):  # a loop, because a long sum is a deep tree
        later.append(later[-1].left)
    left = bind_expr(later[-1].left, scope)
    for operation in reversed(later):
        try:
            left = _operation(operation, left, bind_expr(operation.right, scope), scope)
        except AlreadyReported:
            left = error_expression(operation.span)
    return left


def _operation(node: ast.Binary, left: x.BoundExpr, right: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    if node.op == "||":
        return _concat(node, left, right, scope)
    if ERROR in (left.type, right.type):
        return error_expression(node.span)
    type_ = _arithmetic_type(node.op, left.type, right.type, scope)
    distance = bind_distance(left, right, scope) if type_ is None and node.op == "-" else None
    if distance is not None:
        return replace(distance, span=node.span)
    if type_ is None:
        hint = "use || to join strings" if node.op == "+" and t.STRING in (left.type, right.type) else None
        hint = "cast it: cast(…, double)" if t.OBJECT in (left.type, right.type) else hint
        if node.op in "&|^" and t.is_integral(left.type) and t.is_integral(right.type):
            hint = "both sides need the same type: cast one of them (a literal with the suffix L is long)"
        hint = None if scope.module.only_functions else hint
        types = f"{type_text(left.type)} and {type_text(right.type)}"
        scope.mismatch(f"`{node.op}` is not defined for {types}", node.span, hint)
    if type_ == t.BIGDECIMAL:
        left, right = coerce(left, type_), coerce(right, type_)
    return x.Arith(type_, node.op, left, right, span=node.span)


def _arithmetic_type(op: str, left: Type, right: Type, scope: Scope) -> Type | None:
    if op in "&|^":
        if left == right == t.BOOLEAN:
            return t.BOOLEAN
        return left if left == right and t.is_integral(left) else None
    if not (t.is_numeric(left) and t.is_numeric(right)):
        return None
    type_ = t.arithmetic_type(left, right)
    if op != "/" or type_ == t.BIGDECIMAL:
        return type_
    if t.is_integral(type_):
        return type_ if scope.module.options.integer_division else t.DOUBLE
    return t.DOUBLE


def _concat(node: ast.Binary, left: x.BoundExpr, right: x.BoundExpr, scope: Scope) -> x.BoundExpr:
    for operand in (left, right):
        if operand.type not in (*TEXT_TYPES, ERROR) and not _untyped_call(operand):
            hint = "cast it: cast(…, string)"
            scope.mismatch(f"`||` needs string operands, found {type_text(operand.type)}", operand.span, hint)
    parts: list[x.BoundExpr] = []
    for operand in (left, right):
        parts.extend(operand.operands if isinstance(operand, x.Concat) else (operand,))
    return x.Concat(t.STRING, tuple(parts), span=node.span)


def _logical(node: ast.Logical, scope: Scope) -> x.BoundExpr:
    operands = tuple(bind_expr(o, scope) for o in node.operands)
    for operand in operands:
        _check_type(operand, t.BOOLEAN, f"`{node.op}`", scope)
    return x.Logic(t.BOOLEAN, node.op, operands, span=node.span)


def _compare(node: ast.Compare, scope: Scope) -> x.BoundExpr:
    left, right = read_dates(bind_expr(node.left, scope), bind_expr(node.right, scope), scope=scope)
    _check_comparison(node.op, left, right, node.span, scope)
    left, right = comparable_operands(left, right)
    if node.op in ("is", "is not"):
        return x.Is(t.BOOLEAN, left, right, node.op == "is not", span=node.span)
    return x.ComparisonExpr(t.BOOLEAN, node.op, left, right, span=node.span)


def _check_comparison(op: str, left: x.BoundExpr, right: x.BoundExpr, span: Span, scope: Scope) -> None:
    relational = op in ("<", "<=", ">", ">=")
    if not (comparable(left.type, right.type) and (not relational or orderable(left.type, right.type))):
        fact = f"`{op}` cannot compare {type_text(left.type)} with {type_text(right.type)}"
        hint = None if scope.module.only_functions else _date_hint(left, right) or _date_hint(right, left)
        scope.mismatch(fact, span, hint or _comparison_hint(left.type, right.type, scope))


def _date_hint(time: x.BoundExpr, text: x.BoundExpr) -> str | None:
    if time.type != t.LONG or not isinstance(text, x.Const) or not isinstance(text.value, str):
        return None
    match = re.fullmatch(r"\d{4}-\d\d-\d\d(T\d.*| \d\d:\d\d(:\d\d)?)?", text.value)
    if match is None:
        return None
    pattern = "iso" if "T" in text.value else "yyyy-MM-dd HH:mm:ss"[: len(text.value)]
    return f"a time is a number of ms: cast('{text.value}', long, dateformat: '{pattern}')"


_ARRAY_HINT = "declare the arrays alike: int[] has elements that may be null, int[primitive] has not"


def _comparison_hint(left: Type, right: Type, scope: Scope) -> str | None:
    if left.of is not None and left == right:
        return _ARRAY_HINT
    if left == right or t.MAP in (left, right):
        return None
    if any(type_.event is not None or type_.of is not None or type_.fields is not None for type_ in (left, right)):
        return "values of one type are compared: name a property, or one of the values"
    name = type_text(right if left == t.STRING else left)
    return "values of one type are compared" + ("" if scope.module.only_functions else f": cast(value, {name})")


def _quantified(node: ast.QuantifiedCompare, scope: Scope) -> x.BoundExpr:
    left = bind_expr(node.left, scope)
    if isinstance(node.operands[0], ast.Subquery):
        return _bind_subquery(node.operands[0].select, node.quantifier, left, node.op, node.span, scope)
    left, *options = read_dates(left, *(bind_expr(o, scope) for o in node.operands), scope=scope)
    for option in options:
        element = x.Const(option.type.of, None) if option.type.of is not None and left.type.of is None else option
        _check_comparison(node.op, left, element, option.span, scope)
    orders = node.op not in ("=", "!=")
    if orders and node.quantifier == "all" and any(isinstance(o, x.Const) and o.value is None for o in options):
        return x.Const(t.BOOLEAN, None, span=node.span)
    args = (x.Const(t.STRING, node.op, span=node.span), left, *options)
    return x.FunctionCall(t.BOOLEAN, f"quantified {node.quantifier}", args, span=node.span)


def _between(node: ast.Between, scope: Scope) -> x.BoundExpr:
    operand, low, high = read_dates(*(bind_expr(e, scope) for e in (node.operand, node.low, node.high)), scope=scope)
    return _range_test(operand, low, high, (True, True), node, scope)


def _range_test(
    operand: x.BoundExpr,
    low: x.BoundExpr,
    high: x.BoundExpr,
    closed: tuple[bool, bool],
    node: ast.Between | ast.In,
    scope: Scope,
) -> x.BoundExpr:
    """Bind ``[not] between`` and ``[not] in`` with a range; with the literal null as a bound both are false."""
    _check_range(operand, (low, high), node.span, scope)
    if t.NULL in (low.type, high.type):
        return x.Const(t.BOOLEAN, False, span=node.span)
    return x.RangeTest(t.BOOLEAN, operand, low, high, *closed, node.negated, span=node.span)


def _check_range(operand: x.BoundExpr, bounds: Sequence[x.BoundExpr], span: Span, scope: Scope) -> None:
    for bound in bounds:
        if not orderable(operand.type, bound.type):
            scope.mismatch(f"a range of {type_text(bound.type)} does not apply to {type_text(operand.type)}", span)
    if not orderable(bounds[0].type, bounds[1].type):
        scope.mismatch(f"a range cannot go from {type_text(bounds[0].type)} to {type_text(bounds[1].type)}", span)


def _in(node: ast.In, scope: Scope) -> x.BoundExpr:
    operand, *options = read_dates(*(bind_expr(o, scope) for o in (node.operand, *node.operands)), scope=scope)
    if node.range_ is not None:
        closed = node.range_[0] == "[", node.range_[-1] == "]"
        return _range_test(operand, options[0], options[1], closed, node, scope)
    for option in options:
        type_ = option.type.of if option.type.of is not None and operand.type.of is None else option.type
        if not comparable(operand.type, type_):
            fact = f"`in` cannot compare {type_text(operand.type)} with {type_text(type_)}"
            scope.report("type-mismatch", fact, option.span, _comparison_hint(operand.type, type_, scope))
    return x.InList(t.BOOLEAN, operand, tuple(options), node.negated, span=node.span)


def _like(node: ast.Like, scope: Scope) -> x.BoundExpr:
    word = "regexp" if node.regexp else "like"
    operand, pattern = bind_expr(node.operand, scope), bind_expr(node.pattern, scope)
    escape = bind_expr(node.escape, scope) if node.escape is not None else None
    if operand.type not in (*TEXT_TYPES, *UNTYPED) and not t.is_numeric(operand.type):
        scope.mismatch(f"`{word}` needs a string or a number, found {type_text(operand.type)}", operand.span)
    for text in (pattern, escape):
        if text is escape and isinstance(text, x.Const) and text.value is None:
            scope.reject(f"the escape character of `{word}` is null", text.span)
        if text is not None and text.type not in (*TEXT_TYPES, *UNTYPED):
            scope.mismatch(f"the pattern of `{word}` must be a string, found {type_text(text.type)}", text.span)
    if node.regexp and isinstance(pattern, x.Const):
        _check_regexp(str(pattern.value), pattern.span, scope)
    if operand.type not in (*TEXT_TYPES, *UNTYPED):
        operand = x.Convert(t.STRING, operand, span=operand.span)
    return x.StringMatch(t.BOOLEAN, operand, pattern, escape, node.regexp, node.negated, span=node.span)


def _check_regexp(pattern: str, span: Span, scope: Scope) -> None:
    try:
        re.compile(to_python_pattern(pattern))
    except UnknownCharacterClass as unknown:
        scope.unsupported(str(unknown), span)
    except re.error as error:
        scope.wrong(f"`{pattern}` is not a regular expression: {error}", span)


def _case(node: ast.Case, scope: Scope) -> x.BoundExpr:
    branches: list[tuple[x.BoundExpr, x.BoundExpr]] = []
    operand = bind_expr(node.operand, scope) if node.operand is not None else None
    for when, then in node.branches:
        if operand is None:
            condition = bind_condition(when, scope, "the condition of `when`")
        else:
            operand, value = read_dates(operand, bind_expr(when, scope), scope=scope)
            _check_comparison("=", operand, value, when.span, scope)
            condition = x.Is(t.BOOLEAN, *comparable_operands(operand, value), False, span=when.span)
        branches.append((condition, bind_expr(then, scope)))
    default = bind_expr(node.default, scope) if node.default is not None else _empty(branches, node.span)
    results = [value for _, value in branches] + ([default] if default is not None else [])
    type_ = common_type([r.type for r in results])
    if type_ is None:
        names = ", ".join(dict.fromkeys(type_text(r.type) for r in results))
        hint = _ARRAY_HINT if all(r.type.of is not None for r in results) else None
        scope.mismatch(f"the results of `case` have no common type: {names}", node.span, hint)
    if type_ == t.NULL:
        scope.mismatch("all results of `case` are null: it has no type", node.span, "cast one: cast(null, int)")
    return x.CaseWhen(
        type_,
        tuple((condition, coerce(value, type_)) for condition, value in branches),
        coerce(default, type_) if default is not None else None,
        span=node.span,
    )


def _empty(branches: Sequence[tuple[x.BoundExpr, x.BoundExpr]], span: Span) -> x.BoundExpr | None:
    """Return the default of ``case`` without else over structs: a struct with null columns."""
    fields = branches[0][1].type.fields
    if fields is None:
        return None
    return x.StructOf(branches[0][1].type, tuple((n, x.Const(t.NULL, None)) for n, _ in fields), span=span)


def _array(node: ast.ArrayLiteral, scope: Scope) -> x.BoundExpr:
    elements = tuple(bind_expr(e, scope) for e in node.elements)
    type_ = common_type([e.type for e in elements]) or t.OBJECT
    if type_ == ERROR:
        return error_expression(node.span)
    return x.ArrayOf(t.array_of(type_), tuple(coerce(e, type_) for e in elements), span=node.span)


def _struct(node: ast.NewStruct, scope: Scope) -> x.BoundExpr:
    columns: dict[str, x.BoundExpr] = {}
    for name, value in node.columns:
        if name in columns:
            scope.fail("duplicate-name", f"column `{name}` occurs twice", node.span)
        source = value if value is not None else ast.Chain((ast.NameStep(name, span=node.span),), span=node.span)
        columns[name] = bind_expr(source, scope)
    type_ = t.struct_of(tuple((name, value.type) for name, value in columns.items()))
    return x.StructOf(type_, tuple(columns.items()), span=node.span)


# The EPL types that a Java class or interface stands for
_JAVA_INTERFACES = {
    "number": t.NUMERIC,
    "charsequence": (t.STRING,),
    "comparable": (*t.NUMERIC, *TEXT_TYPES, t.BOOLEAN, *t.DATES),
}


def _type_test(node: ast.TypeTest, scope: Scope) -> x.BoundExpr:
    operand = bind_expr(node.operand, scope)
    types: list[Type] = []
    for name in node.type_names:
        implementing = _JAVA_INTERFACES.get(name.lower().removeprefix("java.lang."))
        if implementing is not None:
            types.extend(implementing)
        elif builtin_type(name) is not None or name in scope.module.catalog.event_types or "." not in name:
            types.append(bind_type_name(name, scope, node.span))
    if operand.type == t.OBJECT:
        return x.InstanceOf(t.BOOLEAN, operand, tuple(types), span=node.span)
    event = operand.type.event
    subtype = event is not None and any(o.event and scope.module.catalog.is_a(event, o.event) for o in types)
    if operand.type in types or t.OBJECT in types or subtype:
        return x.Is(t.BOOLEAN, operand, x.Const(t.NULL, None), True, span=node.span)
    return x.Const(t.BOOLEAN, False, span=node.span)


def _period(node: ast.TimePeriod, scope: Scope) -> x.BoundExpr:
    parts = tuple((bind_expr(amount, scope), unit) for amount, unit in node.parts)
    return bind_period(parts, node.span, scope)


def _member(node: ast.Member, scope: Scope) -> x.BoundExpr:
    first = node.steps[0]
    if isinstance(node.target, ast.Subquery) and first.args is not None and is_enumeration_method(first.name):
        target = _bind_subquery(node.target.select, "list", None, "", node.target.span, scope)
    else:
        target = bind_expr(node.target, scope)
    return apply_steps(target, node.steps, scope, bind_expr)


def _subquery(node: ast.Subquery, scope: Scope) -> x.BoundExpr:
    return _bind_subquery(node.select, "exists" if node.exists else "value", None, "", node.span, scope)


def _in_subquery(node: ast.InSubquery, scope: Scope) -> x.BoundExpr:
    membership = _bind_subquery(node.select, "any", bind_expr(node.operand, scope), "=", node.span, scope)
    return x.LogicalNot(t.BOOLEAN, membership, span=node.span) if node.negated else membership


def _bind_subquery(
    node: ast.Select, form: SubqueryForm, left: x.BoundExpr | None, op: str, span: Span, scope: Scope
) -> x.BoundExpr:
    bind = scope.module.subquery
    assert bind is not None
    reference = bind(node, form, left, op, span, scope)
    return error_expression(span) if left is not None and left.type == ERROR else reference


def _sort_key(node: ast.SortKey, scope: Scope) -> x.BoundExpr:
    what = "sort orders as parameters"
    scope.unsupported(what, node.span)
    raise AlreadyReported(what)


def _star(node: ast.Star, scope: Scope) -> x.BoundExpr:
    scope.reject("`*` is not an expression", node.span)


def _lambda(node: ast.Lambda, scope: Scope) -> x.BoundExpr:
    hint = "methods of arrays take one, such as where(x => x.price > 10)"
    scope.reject("a value is needed here, not a lambda", node.span, hint)


_RULES: dict[type[ast.Expr], Callable[[Any, Scope], x.BoundExpr]] = {
    ast.Literal: _literal,
    ast.Parameter: _parameter,
    ast.Chain: lambda node, scope: chain.bind_chain(node, scope, bind_expr),
    ast.Member: _member,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Logical: _logical,
    ast.Compare: _compare,
    ast.QuantifiedCompare: _quantified,
    ast.Between: _between,
    ast.In: _in,
    ast.Like: _like,
    ast.Case: _case,
    ast.ArrayLiteral: _array,
    ast.NewStruct: _struct,
    ast.NewInstance: lambda node, scope: bind_new_array(node, scope, bind_expr),
    ast.Cast: lambda node, scope: bind_cast(node, scope, bind_expr),
    ast.TypeTest: _type_test,
    ast.Lambda: _lambda,
    ast.TimePeriod: _period,
    ast.Subquery: _subquery,
    ast.InSubquery: _in_subquery,
    ast.Star: _star,
    ast.SortKey: _sort_key,
}
