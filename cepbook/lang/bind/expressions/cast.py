"""``cast(value, type)``, and casts of text to dates with a format (Esper reference, section "The Cast Function")."""

from __future__ import annotations

from cepbook.errors import Span
from cepbook.lang import types as t
from cepbook.lang.bind.coercion import UNTYPED
from cepbook.lang.bind.expressions.date_methods import check_date_pattern
from cepbook.lang.bind.scope import ERROR, AlreadyReported, Binder, Scope, resolve_type, type_text
from cepbook.lang.java.dates.date_parser import ISO_FORMAT, DateFormat, DateParseError
from cepbook.lang.plan import expressions as x
from cepbook.lang.rewrite.fold_constants import fold_expr_node
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_LOCAL = (t.ZONEDDATETIME, t.LOCALDATETIME, t.LOCALDATE, t.LOCALTIME)


def bind_type_name(name: str, scope: Scope, span: Span) -> Type:
    """Return the type in ``cast(x, type)``. Raises AlreadyReported if it is unknown."""
    type_ = resolve_type(name, scope.module, span)
    if type_ == ERROR:
        raise AlreadyReported(name)
    return type_


def bind_cast(node: ast.Cast, scope: Scope, bind: Binder) -> x.BoundExpr:
    """Bind a cast. Raises AlreadyReported."""
    operand = bind(node.operand, scope)
    target = bind_type_name(node.type_name, scope, node.span)
    form: x.BoundExpr | None = None
    for name, values in node.named:
        if name.lower() != "dateformat":
            scope.reject(f"`cast` has no parameter `{name}`", node.span, "its parameter is called dateformat")
        if len(values) != 1 or form is not None:
            scope.reject("`cast` takes one dateformat", node.span)
        form = bind(values[0], scope)
    if operand.type == ERROR or (form is not None and form.type == ERROR):
        return x.Const(target, None, span=node.span)
    if form is not None:
        return _read(operand, form, target, node.span, scope)
    if not _castable(operand.type, target):
        fact = f"{type_text(operand.type)} cannot be cast to {type_text(target)}"
        scope.mismatch(fact, node.span, _hint(operand.type, target, scope.module.text(node.operand.span)))
    return fold_expr_node(x.Convert(target, operand, span=node.span))


def _castable(source: Type, target: Type) -> bool:
    if source == target or source in UNTYPED or target in (t.STRING, t.OBJECT):
        return True
    if t.is_numeric(target) or target == t.BOOLEAN:
        return source == t.STRING or (t.is_numeric(source) and t.is_numeric(target))
    return source == t.STRING and target == t.CHAR


def _hint(source: Type, target: Type, text: str) -> str | None:
    if source == t.STRING and target in t.DATES:
        form = "HH:mm" if target == t.LOCALTIME else "yyyy-MM-dd"
        name = "date" if target == t.TIMESTAMP else target
        return f"give the format: write `cast({text}, {name}, dateformat: '{form}')`"
    methods = {t.TIMESTAMP: "toDate", t.CALENDAR: "toCalendar", t.LONG: "toMillisec"}
    if source in (t.LONG, *t.DATETIMES) and target in methods and not text[:1].isdigit():
        return f"write `{text}.{methods[target]}()`"
    return None


def _read(operand: x.BoundExpr, form: x.BoundExpr, target: Type, span: Span, scope: Scope) -> x.BoundExpr:
    if target not in (t.LONG, *t.DATES):
        scope.reject(f"a dateformat is for dates and long, not for {type_text(target)}", span)
    if operand.type not in (t.STRING, t.NULL, t.OBJECT):
        scope.mismatch(f"a cast with a dateformat needs a string, found {type_text(operand.type)}", operand.span)
    if not (isinstance(form, x.Const) and isinstance(form.value, str) and form.value.lower() == ISO_FORMAT):
        check_date_pattern(form, "the dateformat", target in _LOCAL, scope)
    options = scope.module.options
    second = 1_000_000 if options.microseconds else 1000
    reader = DateFormat("date" if target == t.TIMESTAMP else target.name, options.time_zone, second)
    if operand.type == t.OBJECT:
        operand = x.Convert(t.STRING, operand, span=operand.span)
    if not (isinstance(operand, x.Const) and isinstance(form, x.Const)):
        return x.FunctionCall(target, "cast of a date", (operand, form, x.Const(t.CHRONOLOGY, reader)), span=span)
    if operand.value is None or form.value is None:
        return x.Const(target, None, span=span)
    try:
        return x.Const(target, reader.read(str(operand.value), str(form.value)), span=span)
    except DateParseError as error:
        scope.reject(str(error), operand.span)
