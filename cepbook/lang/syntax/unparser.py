"""The normalised text of an expression: the name of a select column without ``as`` (recorded in the corpus).

No blanks around signs (``x+1``), one blank around words (``x is null``), strings in double quotes (``"a"``),
``!=`` for ``<>``, ``-1*x`` for ``-x``, ``current_timestamp()`` with parentheses, names without backticks.
Parentheses appear where precedence needs them, and always around an aggregation function that is an operand:
``(sum(x))+1``. Keys of mapped properties keep single quotes: ``m('k')``.
"""

from __future__ import annotations

from collections.abc import Collection

from cepbook.lang.java.numbers import double_text
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.syntax import ast

# Binding strength, weak to tight; an operand that binds weaker than its operator gets parentheses.
MINIMUM, CASE, OR, AND, BITWISE, NEGATED, EQUALS, RELATIONAL, CONCAT, ADDITIVE, MULTIPLY, UNARY = range(12)
BINARY = {
    "||": CONCAT,
    "+": ADDITIVE,
    "-": ADDITIVE,
    "*": MULTIPLY,
    "/": MULTIPLY,
    "%": MULTIPLY,
    "&": BITWISE,
    "|": BITWISE,
    "^": BITWISE,
}
NOT_ASSOCIATIVE = frozenset("-/%")


def unparse(expr: ast.Expr, functions: Collection[str] = ()) -> str:
    """Return the normalised text of `expr`.

    `functions` are lower-cased names that are functions even with one string argument (``f("k")``); any other
    ``f('k')`` is a mapped property.
    """
    return _text(expr, MINIMUM, functions)


def _text(expr: ast.Expr, outer: int, functions: Collection[str]) -> str:
    text, strength = _render(expr, functions)
    return f"({text})" if strength < outer else text


def _list(exprs: tuple[ast.Expr, ...], functions: Collection[str]) -> str:
    return ",".join(_text(e, MINIMUM, functions) for e in exprs)


def _render(expr: ast.Expr, functions: Collection[str]) -> tuple[str, int]:
    """Return the text of `expr` without parentheses around it, and its binding strength."""

    def inner(operand: ast.Expr, outer: int) -> str:
        return _text(operand, outer, functions)

    match expr:
        case ast.Literal():
            return _literal(expr), UNARY
        case ast.Chain(steps):
            strength = MINIMUM if _is_aggregate(steps) else UNARY
            return _steps(steps, functions), strength
        case ast.Member(target, steps):
            text = inner(target, UNARY)
            if isinstance(target, ast.Subquery | ast.ArrayLiteral | ast.Cast | ast.NewInstance) or text[0] == "(":
                return _join(text, _steps(steps, functions), steps), UNARY
            return _join(f"({text})", _steps(steps, functions), steps), UNARY
        case ast.Unary("not", operand):
            return f"not {inner(operand, EQUALS)}", NEGATED
        case ast.Unary("-", operand):
            return f"-1*{inner(operand, MULTIPLY)}", MULTIPLY
        case ast.Unary(_, operand):
            return inner(operand, UNARY), UNARY
        case ast.Binary(op, left, right):
            strength = BINARY[op]
            if strength == BITWISE:  # only one kind of bitwise operator per chain
                needs = [BITWISE if isinstance(o, ast.Binary) and o.op == op else NEGATED for o in (left, right)]
            else:
                needs = [strength, strength + 1 if op in NOT_ASSOCIATIVE else strength]
            return f"{inner(left, needs[0])}{op}{inner(right, needs[1])}", strength
        case ast.Logical(op, operands):
            strength = AND if op == "and" else OR
            return f" {op} ".join(inner(o, strength) for o in operands), strength
        case ast.Compare(op, left, right):
            strength = EQUALS if op in ("=", "!=", "is", "is not") else RELATIONAL
            sign = f" {op} " if op[0] == "i" else op
            return f"{inner(left, strength + 1)}{sign}{inner(right, strength + 1)}", strength
        case ast.Between() | ast.In() | ast.InSubquery() | ast.Like() | ast.QuantifiedCompare():
            return _relation(expr, functions), RELATIONAL
        case ast.Case(operand, branches, default):
            words = ["case"] if operand is None else ["case", inner(operand, CASE)]
            for condition, value in branches:
                words += ["when", inner(condition, CASE), "then", inner(value, CASE)]
            words += [] if default is None else ["else", inner(default, CASE)]
            return f"{' '.join(words)} end", CASE
    return _other(expr, functions), UNARY


def _relation(expr: ast.Expr, functions: Collection[str]) -> str:
    def inner(operand: ast.Expr) -> str:
        return _text(operand, CONCAT, functions)

    match expr:
        case ast.Between(operand, low, high, negated):
            return f"{inner(operand)} {'not ' * negated}between {inner(low)} and {inner(high)}"
        case ast.In(operand, (low, high), negated, str(brackets)):
            return f"{inner(operand)} {'not ' * negated}in {brackets[0]}{inner(low)}:{inner(high)}{brackets[1]}"
        case ast.In(operand, operands, negated):
            return f"{inner(operand)} {'not ' * negated}in ({_list(operands, functions)})"
        case ast.InSubquery(operand, select, negated):
            return f"{inner(operand)} {'not ' * negated}in ({select_text(select, functions)})"
        case ast.Like(operand, pattern, escape, negated, regexp):
            ending = "" if escape is None else f" escape {inner(escape)}"
            return f"{inner(operand)} {'not ' * negated}{'regexp' if regexp else 'like'} {inner(pattern)}{ending}"
        case ast.QuantifiedCompare(op, quantifier, left, operands):
            listed = _list(operands, functions)
            listed = listed if isinstance(operands[0], ast.Subquery) else f"({listed})"
            return f"{inner(left)}{op}{quantifier} {listed}"
    raise TypeError(f"no relation: {type(expr).__name__}")


def _other(expr: ast.Expr, functions: Collection[str]) -> str:
    def inner(operand: ast.Expr) -> str:
        return _text(operand, MINIMUM, functions)

    match expr:
        case ast.Star(stream):
            return "*" if stream is None else f"{stream}.*"
        case ast.Parameter(name):
            return f":{name}" if isinstance(name, str) else "?"
        case ast.ArrayLiteral(elements, written):
            if written:
                return written
            return f"{{{_list(elements, functions)}}}"
        case ast.Tuple_(elements):
            return f"({_list(elements, functions)})"
        case ast.NewStruct(columns):
            listed = ",".join(name if value is None else f"{name}={inner(value)}" for name, value in columns)
            return f"new{{{listed}}}"
        case ast.NewInstance(type_name, args, False, type_args=types):
            of = f"<{','.join(types)}>" if types else ""
            return f"new {type_name}{of}({_list(args, functions)})"
        case ast.NewInstance(type_name, args, _, dimensions):
            sizes = "".join(f"[{'' if d is None else inner(d)}]" for d in dimensions)
            return f"new {type_name}{sizes}" + (f" {{{_list(args, functions)}}}" if args else "")
        case ast.Cast(operand, type_name, named):
            return f"cast({inner(operand)},{type_name}{_named(named, functions)})"
        case ast.TypeTest(operand, type_names):
            return f"instanceof({inner(operand)},{','.join(type_names)})"
        case ast.Lambda(params, body):
            head = params[0] if len(params) == 1 else f"({','.join(params)})"
            return f"{head} => {inner(body)}"
        case ast.TimePeriod(parts):
            return " ".join(f"{inner(amount)} {unit}s" for amount, unit in parts)
        case ast.Subquery(select, exists):
            return f"{'exists ' * exists}({select_text(select, functions)})"
        case ast.SortKey(operand, descending):
            return f"{inner(operand)}{' desc' * descending}"
        case ast.Crontab(fields):
            return f"({_list(fields, functions)})"
        case ast.CronStep(kind, operands):
            return cron_text(kind, [inner(operand) for operand in operands], ",")
        case ast.RowStatus(alias, status):
            return f"{'' if alias is None else alias + '.'}$row_status is {status}"
    raise TypeError(f"no text for {type(expr).__name__}")


def cron_text(kind: str, operands: list[str], separator: str) -> str:
    """Return a field of a crontab."""
    match kind:
        case "star":
            return "*"
        case "step":
            return f"*/{operands[0]}"
        case "range":
            return ":".join(operands)
        case "list":
            return f"[{separator.join(operands)}]"
        case "value":
            return operands[0]
        case "nth_last":
            return f"{operands[0]} last"
        case "weekday":
            return f"{operands[0]} weekday"
    return kind


def select_text(select: ast.Select, functions: Collection[str] = ()) -> str:
    """Return the normalised text of a subquery."""
    items = ",".join(column_name(item, functions) or "*" for item in select.items)
    source = select.sources[0]
    text = f"select {'distinct ' * select.distinct}{items} from "
    if isinstance(source.stream, ast.FilterStream):
        text += source.stream.type_name
        text += f"({_list(source.stream.filters, functions)})" if source.stream.filters else ""
    for window in source.windows:
        space = f"{window.namespace}:" if window.namespace else ""
        text += f"#{space}{window.name}" + (f"({_list(window.args, functions)})" if window.args else "")
    text += f" as {source.alias}" if source.alias else ""
    text += f" where {_text(select.where, MINIMUM, functions)}" if select.where is not None else ""
    return text


def column_name(item: ast.SelectItem, functions: Collection[str] = ()) -> str | None:
    """Return the alias of a select item, else its normalised text; None for a wildcard without alias."""
    if item.alias is not None or item.expr is None:
        return item.alias
    return unparse(item.expr, functions)


def _is_aggregate(steps: tuple[ast.NameStep, ...]) -> bool:
    if len(steps) != 1 or steps[0].args is None:
        return False
    name = steps[0].name.lower()
    return name in AGGREGATES and not (name in FUNCTIONS and len(steps[0].args) > 1)


def _steps(steps: tuple[ast.NameStep, ...], functions: Collection[str]) -> str:
    text = ""
    for position, step in enumerate(steps):
        text = _join(text, _step(step, len(steps) == 1, functions), steps[position:])
    return text


def _join(before: str, text: str, steps: tuple[ast.NameStep, ...]) -> str:
    """Join with a dot unless the first of `steps` is a bare index."""
    return f"{before}.{text}" if before and steps[0].name else f"{before}{text}"


def _step(step: ast.NameStep, alone: bool, functions: Collection[str]) -> str:
    text = step.name
    if step.args is None:
        if alone and text.lower() == "current_timestamp" and not step.escaped:
            return "current_timestamp()"
    elif _is_mapped(step, functions):
        text += f"('{step.args[0].value}')"  # type: ignore[attr-defined]
    else:
        listed = [*("*" for _ in range(step.wildcard)), *(_text(a, MINIMUM, functions) for a in step.args)]
        text += f"({'distinct ' * step.distinct}{','.join(listed)}{_named(step.named, functions, not listed)})"
    if step.index is not None:
        index = step.index
        elements = index.elements if isinstance(index, ast.Tuple_) else (index,)
        text += f"[{_list(elements, functions)}]"
    return f"{text}?" if step.optional else text


def _is_mapped(step: ast.NameStep, functions: Collection[str]) -> bool:
    args = step.args or ()
    only_text = len(args) == 1 and isinstance(args[0], ast.Literal) and args[0].type == "string"
    plain = not (step.distinct or step.wildcard or step.named)
    return only_text and plain and step.name.lower() not in functions and step.name.lower() not in AGGREGATES


def _named(named: tuple[tuple[str, tuple[ast.Expr, ...]], ...], functions: Collection[str], first: bool = False) -> str:
    """``,name:value`` for each named parameter, without the first comma if `first`."""
    texts = []
    for name, values in named:
        listed = _list(values, functions)
        texts.append(f"{name}:{listed}" if len(values) == 1 else f"{name}:({listed})")
    text = ",".join(texts)
    return text if first or not text else f",{text}"


def _literal(literal: ast.Literal) -> str:
    value = literal.value
    if literal.written:
        return literal.written
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value, literal.type == "float")
    return f'"{value}"' if isinstance(value, str) else str(value)


def _float(value: float, single: bool) -> str:
    """Print a number as Java does: ``2.5``, ``1.0E10``; single precision in its shortest form."""
    if single:
        value = next(near for n in range(1, 10) if abs((near := float(f"{value:.{n}g}")) - value) <= abs(value) * 6e-8)
    return double_text(value)
