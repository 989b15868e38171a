"""Bound expressions to Python source.

An expression has three readings. `value` is its value, None for null. `truth` is a Python condition that is true
exactly if the expression is true. `falsity` is one that is true exactly if the expression is false. Filters, where and
having use `truth`, so null needs no third value there, and most null checks vanish:

::

    price > 5               value    (p0 > 5 if p0 is not None else None)
                            truth    (p0 is not None and p0 > 5)
    not (price > 5)         truth    (p0 is not None and p0 <= 5)         the falsity of the comparison
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cepbook.engine.expressions import arithmetic, method_calls, primitives
from cepbook.engine.expressions.code_scope import RENDERERS, PropertyKey, null_checked, unless_null
from cepbook.engine.expressions.code_scope import CodeScope as CodeScope
from cepbook.engine.expressions.code_scope import ReadableVariable as ReadableVariable  # for other modules
from cepbook.engine.expressions.code_scope import ScopeFactory as ScopeFactory
from cepbook.engine.expressions.code_scope import bound_name as bound_name
from cepbook.engine.expressions.code_scope import value as value
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.primitives import event_type
from cepbook.engine.expressions.user_values import as_declared_type
from cepbook.errors import Refusal
from cepbook.lang.java.sizes import MAX_LENGTH, joined
from cepbook.lang.plan import expressions as x
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.types import Type, is_hashable, is_integral

_FLIPPED = {"=": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_PYTHON_OPS = {"=": "=="}


def truth(scope: CodeScope, e: x.BoundExpr) -> str:
    """Return a Python condition that is true exactly if `e` is true."""
    write = _TRUTH.get(type(e))
    return f"{value(scope, e)} is True" if write is None else write(scope, e)


def _checked(scope: CodeScope, e: x.BooleanCheck, wanted: str, other: str) -> str:
    """Return ``operand is wanted``, which calls the check only for a value that is not a boolean or null."""
    code = value(scope, e.operand)
    if not scope.checks:
        return f"{code} is {wanted}"
    if not code.isidentifier():
        return f"{value(scope, e)} is {wanted}"
    check = f"{bound_name(scope, primitives.as_boolean)}({code})"
    return f"({code} is {wanted} or {code} is not {other} and {code} is not None and {check})"


def filter_condition(scope: CodeScope, e: x.BoundExpr) -> str:
    """Return a Python condition that is true if an event passes the filter `e`. It reads variables as they were before
    the event: assignments in reaction to the event apply to the next one (recorded: pattern_variable_set_by_pattern).
    """
    return truth(scope.at(deciding=True), e)


def falsity(scope: CodeScope, e: x.BoundExpr) -> str:
    """Return a Python condition that is true exactly if `e` is false (not if it is null)."""
    write = _FALSITY.get(type(e))
    return f"{value(scope, e)} is False" if write is None else write(scope, e)


def _all_of(codes: Iterable[str]) -> str:
    return f"({' and '.join(codes)})"


def _any_of(codes: Iterable[str]) -> str:
    return f"({' or '.join(codes)})"


def _logic_truth(scope: CodeScope, e: x.Logic) -> str:
    return (_all_of if e.op == "and" else _any_of)(truth(scope, operand) for operand in e.operands)


def _logic_falsity(scope: CodeScope, e: x.Logic) -> str:
    return (_any_of if e.op == "and" else _all_of)(falsity(scope, operand) for operand in e.operands)


def _comparison_falsity(scope: CodeScope, e: x.ComparisonExpr) -> str:
    if e.op in ("=", "!=") or (is_integral(e.left.type) and is_integral(e.right.type)):
        return _comparison(scope, e, _FLIPPED[e.op])
    codes, checks = null_checked(scope, e.left, e.right)  # NaN compares false both ways
    return _all_of([*checks, f"not {codes[0]} {e.op} {codes[1]}"])


def _comparison(scope: CodeScope, e: x.ComparisonExpr, op: str) -> str:
    codes, checks = null_checked(scope, e.left, e.right)
    if op in ("==", "!=") and _may_be_nan(e):
        return f"({' and '.join([*checks, _equality(op, *codes)])})"
    if op == "==" and any(side.constant is not None for side in (e.left, e.right)):
        evaluations = [c for c in checks if ":=" in c]  # null never equals a constant, so only the evaluation is needed
        return f"({' and '.join([*evaluations, f'{codes[0]} == {codes[1]}'])})"
    return f"({' and '.join([*checks, f'{codes[0]} {op} {codes[1]}'])})"


def _may_be_nan(e: x.ComparisonExpr | x.Is) -> bool:
    """Return whether both sides may be NaN, which equals itself (recorded: op_modulo_by_zero_and_nan)."""
    return all(side.type.name in ("double", "float") and side.constant is None for side in (e.left, e.right))


def _equality(op: str, a: str, b: str, first: str = "", second: str = "") -> str:
    """Return the code of ``==`` or ``!=`` of floating numbers. `first` and `second` are the code of the first
    occurrence of the operands, if that assigns the names `a` and `b`.
    """
    rest = f"or {a} != {a} and {b} != {b}" if op == "==" else f"and ({a} == {a} or {b} == {b})"
    return f"({first or a} {op} {second or b} {rest})"


def _in_list(scope: CodeScope, e: x.InList) -> str:
    codes = [value(scope, o) for o in e.options]
    options = ", ".join(f"({c} or ())" if o.type.of is not None else c for c, o in zip(codes, e.options, strict=True))
    return f"{bound_name(scope, primitives.in_list)}({value(scope, e.operand)}, ({options},))"


def _const(scope: CodeScope, e: x.Const) -> str:
    v = e.value
    return repr(v) if v is None or isinstance(v, bool) else scope.source.literal(v)


def _prop(scope: CodeScope, e: x.Prop) -> str:
    return scope.props[e.stream, e.name]


def _event(scope: CodeScope, e: x.EventOf) -> str:
    if e.stream not in scope.events:
        raise Refusal("no-event", "the whole event is not retained here")
    return scope.events[e.stream]


def _event_type(scope: CodeScope, e: x.EventTypeName) -> str:
    return f"{bound_name(scope, event_type)}({value(scope, e.event)}, {scope.source.const(e.declared)})"


def _member(scope: CodeScope, e: x.MemberAccess) -> str:
    (target,), checks = null_checked(scope, e.target)
    name = scope.source.const(e.name, "n")
    other = f"{bound_name(scope, primitives.member)}({target}, {name})"
    return unless_null(checks, f"({target}.get({name}) if type({target}) is dict else {other})")  # nearly always a dict


def _index(scope: CodeScope, e: x.IndexAccess) -> str:
    return f"{bound_name(scope, primitives.element)}({value(scope, e.target)}, {value(scope, e.index)})"


def _context_prop(scope: CodeScope, e: x.ContextProp) -> str:
    if e.name in ("id", "name"):
        return f"{scope.partition}.{e.name}"
    return f"{scope.partition}.properties[{scope.source.const(e.name, 'n')}]"


def _table_read(scope: CodeScope, e: x.TableRead) -> str:
    table, arguments = scope.source.table(e.table), [scope.partition if e.inside else "None"]
    if not e.all_keys:
        codes = [key_code(scope.source, value(scope, key), key.type) for key in e.keys]
        arguments.append(codes[0] if len(codes) == 1 else f"({', '.join(codes)})")
    arguments += [] if e.column is None else [scope.source.const(e.column, "n")]
    return f"{table}.{e.how}({', '.join(arguments)})"


def _variable(scope: CodeScope, e: x.VariableRead) -> str:
    if scope.deciding:
        return _before(scope, e.name)
    assigned = scope.assigned.get(e.name)
    return assigned if assigned is not None else current_variable(scope, e.name)


def _before(scope: CodeScope, name: str) -> str:
    cell = scope.variables[name]
    cell.decide()
    known = scope.source.const(cell)
    return f"{known}.before_in({scope.partition})" if cell.partitioned else f"{known}.before"


def current_variable(scope: CodeScope, name: str) -> str:
    """Return the code of the present value of a variable."""
    cell = scope.variables[name]
    if cell.partitioned:
        return f"{scope.partition}.variables[{scope.source.const(name, 'n')}]"
    return f"{scope.source.const(cell)}.value"


def _shared(scope: CodeScope, e: x.SharedExpr) -> str:
    """Evaluate an expression at its first place in a line; later places in the line read the result."""
    shared = scope.source.shared
    name = shared.get((id(scope.props), e))
    if name is None:
        code = value(scope, e.operand)
        shared[id(scope.props), e] = name = scope.source.temporary()
        return f"({name} := {code})"
    return name


def period_code(scope: CodeScope, start: str, period: x.BoundExpr, after: Callable[..., int]) -> str:
    """Return the code of the time that is a period after `start`, code itself, by the function `after`."""
    months, units = ("0" if e is None else value(scope, e) for e in period.period_parts)
    return f"{scope.source.bind('_after', after)}({start}, {months}, {units}, {scope.calendar})"


def _subquery(scope: CodeScope, e: x.SubqueryRef) -> str:
    args = [f"{scope.state}.subqueries[{e.index}]", scope.now, *(value(scope, arg) for arg in e.args)]
    return f"{scope.subqueries[e.index]}({', '.join(args)})"


def _concat(scope: CodeScope, e: x.Concat) -> str:
    codes, checks = null_checked(scope, *e.operands)
    text = bound_name(scope, primitives.java_text)
    texts = [c if o.type.name in ("string", "char") else f"{text}({c})" for c, o in zip(codes, e.operands, strict=True)]
    names = [scope.source.temporary() for _ in texts]
    length = " + ".join(f"len({name} := {code})" for name, code in zip(names, texts, strict=True))
    many = f"{bound_name(scope, joined)}({', '.join(names)})"
    return unless_null(checks, f"({' + '.join(names)} if {length} <= {MAX_LENGTH} else {many})")


def _display_code(scope: CodeScope, code: str, of: Type) -> str:
    return f"{bound_name(scope, primitives.float_display)}({code})" if of.name == "float" else code


def _compare(scope: CodeScope, e: x.ComparisonExpr) -> str:
    codes, checks = null_checked(scope, e.left, e.right)
    op = _PYTHON_OPS.get(e.op, e.op)
    equality = op in ("==", "!=") and _may_be_nan(e)
    return unless_null(checks, _equality(op, *codes) if equality else f"({codes[0]} {op} {codes[1]})")


def _is(scope: CodeScope, e: x.Is) -> str:
    left, right = value(scope, e.left), value(scope, e.right)
    if right == "None" or left == "None":
        other = left if right == "None" else right
        return f"({other} is {'not ' if e.negated else ''}None)"
    op = "!=" if e.negated else "=="
    if not _may_be_nan(e):
        return f"({left} {op} {right})"
    a, b = (code if code.isidentifier() else scope.source.temporary() for code in (left, right))
    first, second = (code if code == name else f"({name} := {code})" for code, name in ((left, a), (right, b)))
    return _equality(op, a, b, first, second)


def _logic(scope: CodeScope, e: x.Logic) -> str:
    function = primitives.and3 if e.op == "and" else primitives.or3
    return f"{bound_name(scope, function)}({', '.join(value(scope, o) for o in e.operands)})"


def _not(scope: CodeScope, e: x.LogicalNot) -> str:
    (operand,), checks = null_checked(scope, e.operand)
    return unless_null(checks, f"(not {operand})")


def _between(scope: CodeScope, e: x.RangeTest) -> str:
    codes, checks = null_checked(scope, e.operand, e.low, e.high)
    v, low, high = codes
    if e.include_low and e.include_high:
        if _ascending(e.low, e.high):
            inside = f"{low} <= {v} <= {high}"
        else:
            inside = f"({low} <= {v} <= {high} or {high} <= {v} <= {low})"
    else:
        in_range = bound_name(scope, primitives.in_range)
        ends = f"{e.include_low}, {e.include_high}"
        inside = f"({in_range}({v}, {low}, {high}, {ends}) or {in_range}({v}, {high}, {low}, {ends}))"
    if not e.negated:
        return "(" + " and ".join([*checks, inside]) + ")"
    own, bounds = checks[: e.operand.nullable], checks[e.operand.nullable :]  # a value lies outside null bounds
    return "(" + " and ".join([*own, f"not ({' and '.join([*bounds, inside])})"]) + ")"


def _ascending(low: x.BoundExpr, high: x.BoundExpr) -> bool:
    a, b = low.constant, high.constant
    numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
    return (numbers or (isinstance(a, str) and isinstance(b, str))) and a <= b  # type: ignore[operator]


def _in(scope: CodeScope, e: x.InList) -> str:
    membership = _in_list(scope, e)
    if not e.negated:
        return membership
    temporary = scope.source.temporary()
    return f"(None if ({temporary} := {membership}) is None else not {temporary})"


def _like(scope: CodeScope, e: x.StringMatch) -> str:
    operand = _display_code(scope, value(scope, e.operand), e.operand.type)
    if e.regexp:
        code = f"{bound_name(scope, primitives.regexp)}({operand}, {value(scope, e.pattern)})"
    else:
        escape = scope.source.const("\\") if e.escape is None else value(scope, e.escape)
        operands = f"{operand}, {value(scope, e.pattern)}, {escape}"
        code = f"{bound_name(scope, primitives.like)}({operands})"
    if not e.negated:
        return code
    temporary = scope.source.temporary()
    return f"(None if ({temporary} := {code}) is None else not {temporary})"


def _case(scope: CodeScope, e: x.CaseWhen) -> str:
    code = "None" if e.default is None else value(scope, e.default)
    for condition, result in reversed(e.branches):
        code = f"{value(scope, result)} if {truth(scope, condition)} else {code}"
    return f"({code})"


def _call(scope: CodeScope, e: x.FunctionCall) -> str:
    row = FUNCTIONS[e.name]
    if row.nulls == "skipped":
        return _first_present(scope, e)
    if row.nulls == "propagate":
        args, checks = null_checked(scope, *e.args)
    else:
        args, checks = [value(scope, a) for a in e.args], []
    if callable(row.py):
        return unless_null(checks, f"{scope.source.const(row.py, 'f')}({', '.join(args)})")
    return unless_null(checks, f"({row.py.format(*args)})")


def _first_present(scope: CodeScope, e: x.FunctionCall) -> str:
    code = value(scope, e.args[-1])
    for argument in reversed(e.args[:-1]):
        (operand,), checks = null_checked(scope, argument)
        code = f"({operand} if {' and '.join(checks) or 'True'} else {code})"
    return code


def _user_call(scope: CodeScope, e: x.UserCall) -> str:
    function = scope.user_functions.get(e.name)
    if function is None:
        raise Refusal("unknown-function", f"no function `{e.name}` is registered")
    codes, checks = [_copied_argument(scope, a) for a in e.args], list[str]()
    for place, required in enumerate(e.required):
        if required and e.args[place].nullable:
            name = scope.source.temporary()
            checks.append(f"({name} := {codes[place]}) is not None")
            codes[place] = name
    code = f"{scope.source.const(function, 'u')}({', '.join(codes)})"
    code = declared_type_code(scope, code, e.type)
    return unless_null(checks, code)


def declared_type_code(scope: CodeScope, code: str, of: Type) -> str:
    """Return the code of the result of a Python function, `code`, as a value of its declared type."""
    calendar = "" if scope.calendar == "1000" else f", {scope.calendar}"
    return f"{bound_name(scope, as_declared_type)}({code}, {scope.source.const(of, 'type')}{calendar})"


def _copied_argument(scope: CodeScope, e: x.BoundExpr) -> str:
    code = value(scope, e)
    return code if is_hashable(e.type) else f"{bound_name(scope, primitives.deep_copied)}({code})"


def _convert(scope: CodeScope, e: x.Convert) -> str:
    source_type, to = e.operand.type, e.type
    widens = is_integral(source_type) and to.name in _WIDER.get(source_type.name, ())
    if source_type == to or to.name == "object" or widens:
        return value(scope, e.operand)
    if to.name == "double" and (is_integral(source_type) or source_type.name == "float"):
        (operand,), checks = null_checked(scope, e.operand)
        return unless_null(checks, f"float({operand})")
    function = primitives.convert_unknown if source_type.name in ("object", "map") else primitives.convert
    operand = value(scope, e.operand)
    if to.name == "string":
        operand = _display_code(scope, operand, source_type)
    return f"{bound_name(scope, function)}({operand}, {scope.source.const(to, 'type')})"


_WIDER = {
    "byte": ("short", "int", "long", "biginteger"),
    "short": ("int", "long", "biginteger"),
    "int": ("long", "biginteger"),
    "long": ("biginteger",),
}


def _array(scope: CodeScope, e: x.ArrayOf) -> str:
    return "[" + ", ".join(value(scope, o) for o in e.elements) + "]"


def _struct(scope: CodeScope, e: x.StructOf) -> str:
    return "{" + ", ".join(f"{scope.source.const(n, 'n')}: {value(scope, v)}" for n, v in e.columns) + "}"


def _type_test(scope: CodeScope, e: x.InstanceOf) -> str:
    is_instance = bound_name(scope, primitives.is_instance)
    declared = scope.source.const(e.operand.type, "type")
    return f"{is_instance}({value(scope, e.operand)}, {declared}, {scope.source.const(e.types, 'types')})"


def _period(scope: CodeScope, e: x.Period) -> str:
    if e.months is not None:
        raise Refusal("calendar-period", "a calendar period has no fixed length here")
    return "0" if e.millis is None else value(scope, e.millis)


RENDERERS.update(
    {
        x.Const: _const,
        x.Prop: _prop,
        x.EventOf: _event,
        x.EventTypeName: _event_type,
        x.MemberAccess: _member,
        x.IndexAccess: _index,
        x.ContextProp: _context_prop,
        x.VariableRead: _variable,
        x.TableRead: _table_read,
        x.CurrentTimestamp: lambda scope, e: scope.now,
        x.Prev: lambda scope, e: scope.row.prev(e),
        x.Prior: lambda scope, e: scope.row.prior(e),
        x.InsertStream: lambda scope, e: scope.row.insert_stream(e),
        x.Grouping: lambda scope, e: scope.row.grouping(e),
        x.MeasureAggregate: lambda scope, e: scope.row.measure_aggregate(e),
        x.SharedExpr: _shared,
        x.MatchedRow: lambda scope, e: scope.row.matched_row(e),
        x.WindowValue: lambda scope, e: scope.window[e.name],
        x.OutputCounter: lambda scope, e: f"C.{e.name}",
        x.AggregateRef: lambda scope, e: scope.aggregates[e.index],
        x.KeyRef: lambda scope, e: scope.keys[e.index],
        x.SubqueryRef: _subquery,
        x.SubqueryParameter: lambda scope, e: scope.parameters[e.index],
        x.Arith: arithmetic.arithmetic_code,
        x.Negate: arithmetic.negation_code,
        x.Concat: _concat,
        x.ComparisonExpr: _compare,
        x.Is: _is,
        x.Logic: _logic,
        x.LogicalNot: _not,
        x.BooleanCheck: lambda scope, e: f"{bound_name(scope, primitives.as_boolean)}({value(scope, e.operand)})",
        x.RangeTest: _between,
        x.InList: _in,
        x.StringMatch: _like,
        x.CaseWhen: _case,
        x.FunctionCall: _call,
        x.UserCall: _user_call,
        x.UserClass: lambda scope, e: scope.source.const(scope.user_functions[e.name], "u"),
        x.MethodCall: method_calls.method_call,
        x.LambdaParameter: lambda scope, e: f"{e.role}{e.level}",
        x.Convert: _convert,
        x.ArrayOf: _array,
        x.StructOf: _struct,
        x.InstanceOf: _type_test,
        x.Period: _period,
    }
)


_TRUTH: dict[type, Callable[..., str]] = {
    x.Const: lambda scope, e: str(e.value is True),
    x.Logic: _logic_truth,
    x.LogicalNot: lambda scope, e: falsity(scope, e.operand),
    x.ComparisonExpr: lambda scope, e: _comparison(scope, e, _PYTHON_OPS.get(e.op, e.op)),
    x.Is: value,
    x.RangeTest: value,
    x.InstanceOf: value,
    x.InList: lambda scope, e: f"{_in_list(scope, e)} is {not e.negated}",
    x.BooleanCheck: lambda scope, e: _checked(scope, e, "True", "False"),
}
_FALSITY: dict[type, Callable[..., str]] = {
    x.Const: lambda scope, e: str(e.value is False),
    x.Logic: _logic_falsity,
    x.LogicalNot: lambda scope, e: truth(scope, e.operand),
    x.ComparisonExpr: _comparison_falsity,
    x.Is: lambda scope, e: f"not {value(scope, e)}",
    x.RangeTest: lambda scope, e: f"not {value(scope, e)}",
    x.InstanceOf: lambda scope, e: f"not {value(scope, e)}",
    x.InList: lambda scope, e: f"{_in_list(scope, e)} is {e.negated}",
    x.BooleanCheck: lambda scope, e: _checked(scope, e, "False", "True"),
}


def property_names(*exprs: x.BoundExpr | None, at: int = 0) -> list[str]:
    """Return the names of the properties of input `at` that the expressions read, in order of first use."""
    return list(dict.fromkeys(prop.name for prop in x.find(x.Prop, *exprs) if prop.stream == at))


def property_codes(names: Mapping[str, str], at: int = 0) -> dict[PropertyKey, str]:
    """Return the code of properties, by (input, name), for the input `at`."""
    return {(at, name): code for name, code in names.items()}


def may_fail(*exprs: x.BoundExpr | None, checks: bool = True) -> bool:
    """Return whether an expression may raise an exception at run time. These are functions from Python, texts parsed as
    numbers, subqueries, methods that compare values of unknown type, and division of whole numbers; and, with `checks`,
    conditions over values of an event.
    """
    nodes = [node for e in exprs if e is not None for node in x.walk(e)]
    if checks and x.find(x.BooleanCheck, *exprs):
        return True
    return any(type(node) in _FAILURES and _FAILURES[type(node)](node) for node in nodes)


def _conversion_may_fail(e: x.Convert) -> bool:
    return e.operand.type.name in ("string", "char", "object", "map") and e.type.name not in ("string", "object")


def _function_may_fail(e: x.FunctionCall) -> bool:
    fails = FUNCTIONS[e.name].fails
    return not e.args[-1].constant if fails == "by zero" else fails


_FAILURES: dict[type, Callable[..., bool]] = {
    x.Convert: _conversion_may_fail,
    x.MethodCall: method_calls.method_may_fail,
    x.Arith: lambda e: e.op == "/" and is_integral(e.type) and not e.right.constant,  # a division of whole numbers
    x.FunctionCall: _function_may_fail,
    x.StringMatch: lambda e: e.regexp and primitives.regexp_may_fail(e.pattern.constant),
    x.UserCall: lambda e: True,
    x.SubqueryRef: lambda e: True,
}


def is_columnar(condition: x.BoundExpr | None) -> bool:
    """Return whether a condition can be evaluated for a whole batch in advance: it reads properties, and cannot fail
    except by a check.
    """
    if condition is None:
        return True
    apart = (x.CurrentTimestamp, x.EventOf, x.Prior, x.Prev)
    alone = not any(isinstance(node, apart) for node in x.walk(condition))
    return alone and bool(property_names(condition)) and not may_fail(condition, checks=False)


def reads_event(*exprs: x.BoundExpr | None, at: int = 0) -> bool:
    """Return whether an expression needs the whole event of the input `at`."""
    return any(event.stream == at for event in x.find(x.EventOf, *exprs))
