"""Read expressions of EPL: parse tree to syntax tree. Each method is named after the grammar rule (or alias) that it
reads.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable
from typing import Any, Protocol

from lark import Token, Tree

from cepbook.errors import NO_SPAN, Diagnostic, Span, shorten_line
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.lexer import TIME_UNITS

NamedArguments = tuple[tuple[str, tuple[ast.Expr, ...]], ...]

UNIT_ORDER = {unit: rank for rank, unit in enumerate(dict.fromkeys(TIME_UNITS.values()))}
CONSTANTS: dict[str, tuple[bool | None, str]] = {
    "true": (True, "boolean"), "false": (False, "boolean"), "null": (None, "null"),
}  # fmt: skip
UNARY_OPERATORS: dict[str, Any] = {"minus": "-", "plus": "+", "negation": "not"}
# Grammar rule -> kind of crontab field, and its number of operands
CRON_KINDS: dict[str, tuple[Any, int]] = {
    "cron_range": ("range", 2),
    "cron_step": ("step", 1),
    "cron_nth_last": ("nth_last", 1),
    "cron_nearest_weekday": ("weekday", 1),
    "cron_last": ("last", 0),
    "cron_last_weekday": ("lastweekday", 0),
}
_MOST_DIGITS, _TOO_LARGE = 100, 10**100
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


class ParseNode(Protocol):
    """A node of a parse tree: the rule or its alias, and nodes, tokens or None for parts left out."""

    data: str
    children: list[Any]

    @property
    def meta(self) -> Any: ...


class Misplaced(Exception):
    """Text that the grammar accepts and the language does not."""

    def __init__(self, message: str, span: Span, hint: str | None = None) -> None:
        self.diagnostic = Diagnostic("syntax", message, span, hint)
        super().__init__(message)


def span_of(node: ParseNode | Token) -> Span:
    """Return the text range of a tree (with its keywords and brackets) or of a token."""
    if isinstance(node, Token):
        return Span(node.start_pos or 0, node.end_pos or 0)
    meta = node.meta
    return NO_SPAN if meta.empty else Span(meta.start_pos, meta.end_pos)


def unescape_name(token: Token | str) -> str:
    """Return a name without its backticks and without backslashes before dots."""
    return token[1:-1] if token[0] == "`" else token.replace("\\", "") if "\\" in token else str(token)


def present(children: Iterable[Any]) -> list[Any]:
    """Return the children without the placeholders of omitted parts."""
    return [child for child in children if child is not None]


class ExpressionReader:
    """Reads expressions, arguments and parameters."""

    def read(self, node: Any) -> Any:
        """Return the syntax tree of any parse tree."""
        return getattr(self, str(node.data))(node)

    def expr(self, node: Any) -> ast.Expr:
        """Return the expression of a tree. Raises Misplaced for a list in parentheses."""
        value: ast.Expr = getattr(self, str(node.data))(node)
        if type(value) is ast.Tuple_:
            raise Misplaced("a list in parentheses is not a value", value.span, "write {a, b} for an array")
        return value

    def reads(self, nodes: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.read(node) for node in nodes)

    def optional(self, node: Any) -> Any:
        """Return the value of a tree, or None for an omitted part."""
        return None if node is None else self.read(node)

    def optional_expr(self, node: Any) -> ast.Expr | None:
        return None if node is None else self.expr(node)

    def exprs(self, nodes: Iterable[Any]) -> tuple[ast.Expr, ...]:
        return tuple(self.expr(node) for node in nodes if node is not None)

    def name(self, node: ParseNode) -> str:
        return unescape_name(node.children[0])

    def definition(self, node: ParseNode) -> str:
        return unescape_name(node.children[0])

    def dotted(self, node: ParseNode) -> str:
        return ".".join(unescape_name(token) for token in node.children)

    def number(self, node: ParseNode) -> ast.Literal:
        return _literal(str(node.children[0]), node)

    def parameter(self, node: ParseNode) -> ast.Parameter:
        """Read a parameter; ``?`` is numbered later, by `bind.substitution`, from the parameters before it."""
        question, _, rest = str(node.children[0]).partition(":")
        name, _, type_name = rest.partition(":") if question else (rest, "", "")
        return ast.Parameter(name or 0, type_name or None, span=span_of(node))

    def minus_parameter(self, node: ParseNode) -> ast.Unary:
        return ast.Unary("-", self.parameter(node), span=span_of(node))

    def string(self, node: ParseNode) -> ast.Literal:
        return ast.Literal(unquote(node.children[0]), "string", span=span_of(node))

    def true(self, node: ParseNode) -> ast.Literal:
        return ast.Literal(*CONSTANTS[node.data], span=span_of(node))

    false = null = true

    def negative(self, node: ParseNode) -> ast.Literal:
        return _literal(f"-{node.children[0]}", node)

    def positive(self, node: ParseNode) -> ast.Literal:
        return self.number(node)

    def logical_or(self, node: ParseNode) -> ast.Expr:
        return ast.Logical("or" if node.data == "logical_or" else "and", self.exprs(node.children), span=span_of(node))

    logical_and = logical_or

    def binary(self, node: ParseNode) -> ast.Expr:
        later: list[tuple[Any, Any]] = []
        first: Any = node
        while first.data == "binary":  # a loop, because a long sum is a deep tree
            parts = first.children
            later += [(parts[i], parts[i + 1]) for i in range(len(parts) - 2, 0, -2)]
            first = parts[0]
        left = self.expr(first)
        for operator, tree in reversed(later):
            right = self.expr(tree)
            left = ast.Binary(str(operator), left, right, span=left.span.to(right.span))
        return left

    def concatenation(self, node: ParseNode) -> ast.Expr:
        left, *others = self.exprs(node.children)
        for right in others:
            left = ast.Binary("||", left, right, span=left.span.to(right.span))
        return left

    def minus(self, node: ParseNode) -> ast.Expr:
        return ast.Unary(UNARY_OPERATORS[node.data], self.expr(node.children[0]), span=span_of(node))

    negation = plus = minus

    def compare(self, node: ParseNode) -> ast.Expr:
        left, op, right = node.children
        written: Any = "!=" if op == "<>" else str(op)
        return ast.Compare(written, self.expr(left), self.expr(right), span=span_of(node))

    def is_compare(self, node: ParseNode) -> ast.Expr:
        operator: Any = "is" if node.data == "is_compare" else "is not"
        return ast.Compare(operator, *self.exprs(node.children), span=span_of(node))

    is_not_compare = is_compare

    def quantified_compare(self, node: ParseNode) -> ast.Expr:
        left, op, quantified = node.children
        word, *operands = quantified.children
        if isinstance(operands[0], Tree) and operands[0].data == "subselect":
            values: tuple[ast.Expr, ...] = (ast.Subquery(self.read(operands[0]), span=span_of(operands[0])),)
        else:
            values = self.exprs(operands)
        quantifier: Any = "all" if word == "all" else "any"
        sign = "!=" if op == "<>" else str(op)
        return ast.QuantifiedCompare(sign, quantifier, self.expr(left), values, span=span_of(node))

    def between(self, node: ParseNode) -> ast.Expr:
        operand, negated, low, high = node.children
        return ast.Between(self.expr(operand), self.expr(low), self.expr(high), negated is not None, span=span_of(node))

    def in_list(self, node: ParseNode) -> ast.Expr:
        operand, negated, *values = node.children
        return ast.In(self.expr(operand), self.exprs(values), negated is not None, span=span_of(node))

    def in_select(self, node: ParseNode) -> ast.Expr:
        operand, negated, select = node.children
        return ast.InSubquery(self.expr(operand), self.read(select), negated is not None, span=span_of(node))

    def in_range(self, node: ParseNode) -> ast.Expr:
        operand, negated, opening, low, high, closing = node.children
        limits, brackets = (self.expr(low), self.expr(high)), f"{opening}{closing}"
        return ast.In(self.expr(operand), limits, negated is not None, brackets, span=span_of(node))

    def like(self, node: ParseNode) -> ast.Expr:
        operand, negated, word, pattern, *escape = node.children
        sides = self.expr(operand), self.expr(pattern)
        escape_sign = self.expr(escape[0]) if present(escape) else None
        return ast.Like(*sides, escape_sign, negated is not None, word == "regexp", span=span_of(node))

    def case(self, node: ParseNode) -> ast.Expr:
        operand, *branches, default = node.children
        pairs = tuple((self.expr(branch.children[0]), self.expr(branch.children[1])) for branch in branches)
        return ast.Case(self.optional_expr(operand), pairs, self.optional_expr(default), span=span_of(node))

    def parenthesised(self, node: ParseNode) -> ast.Expr:
        children: list[Any] = node.children
        if len(children) == 1:
            return self.expr(children[0])
        return ast.Tuple_(self.exprs(children), span=span_of(node))

    def subquery(self, node: ParseNode) -> ast.Expr:
        return ast.Subquery(self.read(node.children[0]), span=span_of(node))

    def exists_select(self, node: ParseNode) -> ast.Expr:
        return ast.Subquery(self.read(node.children[0]), True, span=span_of(node))

    def exists_property(self, node: ParseNode) -> ast.Expr:
        span = span_of(node)
        step = ast.NameStep("exists", (self.read(node.children[0]),), span=span)
        return ast.Chain((step,), span=span)

    def array(self, node: ParseNode) -> ast.Expr:
        return ast.ArrayLiteral(self.exprs(node.children), span=span_of(node))

    def new_struct(self, node: ParseNode) -> ast.Expr:
        columns: list[tuple[str, ast.Expr | None]] = []
        for column in node.children:
            name, value = column.children
            columns.append((self.read(name), self.optional_expr(value)))
        return ast.NewStruct(tuple(columns), span=span_of(node))

    def new_instance(self, node: ParseNode) -> ast.Expr:
        type_name, type_args, *args = node.children
        types = () if type_args is None else tuple(self.type_text(child) for child in type_args.children)
        return ast.NewInstance(self.read(type_name), self.exprs(args), type_args=types, span=span_of(node))

    def new_array(self, node: ParseNode) -> ast.Expr:
        type_name, *dimensions = node.children
        sizes = tuple(None if d.children[0] is None else self.expr(d.children[0]) for d in dimensions)
        name = self.read(type_name)
        if not any(sizes):
            hint = f"write new {name}[n] or new {name}[] {{…}}"
            raise Misplaced("a new array needs a size or elements", span_of(node), hint)
        return ast.NewInstance(name, (), True, sizes, span=span_of(node))

    def new_filled_array(self, node: ParseNode) -> ast.Expr:
        type_name, *rest = present(node.children)
        dimensions = [child for child in rest if child.data == "new_dimension"]
        values = self.exprs(child for child in rest if child.data != "new_dimension")
        return ast.NewInstance(self.read(type_name), values, True, (None,) * len(dimensions), span=span_of(node))

    def cast(self, node: ParseNode) -> ast.Expr:
        operand, type_ref, *named = node.children
        return ast.Cast(self.expr(operand), self.type_text(type_ref), self.named(named), span=span_of(node))

    def type_test(self, node: ParseNode) -> ast.Expr:
        operand, *types = node.children
        return ast.TypeTest(self.expr(operand), tuple(self.type_text(t) for t in types), span=span_of(node))

    def type_text(self, node: Any) -> str:
        """Return a type as written, without blanks: ``int[]``."""
        name, *rest = node.children
        text: str = self.dotted(name)
        inner = [self.type_text(child) for child in rest if child.data == "type_ref"]
        if inner:
            text += f"<{','.join(inner)}>"
        for child in rest:
            if child.data == "dimension":
                text += "[]" if child.children[0] is None else f"[{self.read(child.children[0])}]"
        return text

    def chain(self, node: ParseNode) -> ast.Expr:
        steps: list[ast.NameStep] = []
        for child in node.children:
            self.add_steps(child, steps)
        return ast.Chain(tuple(steps), span=span_of(node))

    def member(self, node: ParseNode) -> ast.Expr:
        target, last = node.children
        steps: list[ast.NameStep] = []
        if last.data == "index":
            steps.append(ast.NameStep("", index=self.index(last), span=span_of(last)))
        else:
            self.add_steps(last, steps)
        before = self.expr(target)
        if isinstance(before, ast.Member):
            return ast.Member(before.target, before.steps + tuple(steps), span=span_of(node))
        return ast.Member(before, tuple(steps), span=span_of(node))

    def index(self, node: ParseNode) -> ast.Expr:
        if len(node.children) == 1:
            return self.expr(node.children[0])
        return ast.Tuple_(self.exprs(node.children), span=span_of(node))

    def add_steps(self, node: Any, steps: list[ast.NameStep]) -> None:
        """Append the steps of one node: one step, and one more for each index after a call or another index."""
        children = node.children
        token = children[0].children[0]
        call, optional = children[1], children[-1] is not None
        span = span_of(node)
        indexes = children[2:-1]
        first = self.index(indexes[0]) if indexes and call is None else None
        more = indexes[1:] if call is None else indexes
        escaped = token[0] == "`"
        if call is None:
            name, optional_step = unescape_name(token), optional and not more
            steps.append(ast.NameStep(name, None, first, optional_step, escaped=escaped, span=span))
        else:
            args, distinct, wildcard, named = self.arguments(call)
            flags = optional and not more, distinct, wildcard, named, escaped
            steps.append(ast.NameStep(unescape_name(token), args, None, *flags, span=span))
        for i, index in enumerate(more):
            steps.append(
                ast.NameStep("", None, self.index(index), optional and i == len(more) - 1, span=span_of(index))
            )

    def arguments(self, node: ParseNode) -> tuple[tuple[ast.Expr, ...], bool, bool, NamedArguments]:
        """Return arguments, distinct, wildcard and named arguments of a call."""
        args: list[ast.Expr] = []
        named: list[Any] = []
        distinct = wildcard = False
        for position, child in enumerate(node.children):
            kind = child.data
            if kind == "named_arg":
                named.append(child)
            elif kind == "distinct_arg":
                distinct = True
                args.append(self.expr(child.children[0]))
            elif kind == "star" and position == 0:
                wildcard = True
            else:
                args.append(self.expr(child))
        return tuple(args), distinct, wildcard, self.named(named)

    def named(self, nodes: Iterable[Any]) -> NamedArguments:
        """Return pairs of a parameter's name and its values: one value, or those of a list in parentheses."""
        pairs: list[tuple[str, tuple[ast.Expr, ...]]] = []
        for node in nodes:
            if node is None:
                continue
            value = self.read(node.children[1]) if len(node.children) > 1 else ast.Tuple_(())
            values = value.elements if isinstance(value, ast.Tuple_) else (value,)
            pairs.append((unescape_name(node.children[0]), values))
        return tuple(pairs)

    def star(self, node: ParseNode) -> ast.Expr:
        return ast.Star(span=span_of(node))

    def distinct_arg(self, node: ParseNode) -> ast.Expr:
        raise Misplaced("distinct is allowed only before the first argument of a function", span_of(node))

    def all_arg(self, node: ParseNode) -> ast.Expr:
        return self.expr(node.children[0])

    def named_arg(self, node: ParseNode) -> ast.Expr:
        raise Misplaced("a named parameter is not allowed here", span_of(node))

    def stream_star(self, node: ParseNode) -> ast.Expr:
        *steps, _ = node.children
        return ast.Star(".".join(self.name(step.children[0]) for step in steps), span=span_of(node))

    def sort_arg(self, node: ParseNode) -> ast.Expr:
        operand, direction = node.children
        return ast.SortKey(self.expr(operand), direction == "desc", span=span_of(node))

    def lambda_one(self, node: ParseNode) -> ast.Expr:
        name, body = node.children
        return ast.Lambda((self.read(name),), self.expr(body), span=span_of(node))

    def lambda_many(self, node: ParseNode) -> ast.Expr:
        listed, body = node.children
        names: list[str] = []
        for child in listed.children:
            value = self.read(child)
            if not isinstance(value, ast.Chain) or len(value.steps) != 1 or value.steps[0].args is not None:
                raise Misplaced("a parameter of a lambda is a name", value.span)
            names.append(value.steps[0].name)
        return ast.Lambda(tuple(names), self.expr(body), span=span_of(node))

    def time_period(self, node: ParseNode) -> ast.Expr:
        parts: list[tuple[ast.Expr, str]] = []
        for unit_node in node.children:
            amount_node, word = unit_node.children
            amount, unit = self.expr(amount_node), TIME_UNITS[str(word)]
            if isinstance(amount, ast.Literal) and amount.type == "string":
                fact = "the amount of a time period is a number or a name"
                raise Misplaced(fact, amount.span, "write it without quotes")
            if parts and UNIT_ORDER[unit] <= UNIT_ORDER[parts[-1][1]]:
                hint = "write units from large to small, each once: 1 hour 30 min"
                raise Misplaced(f"{word} cannot follow {parts[-1][1]} in a time period", span_of(word), hint)
            parts.append((amount, unit))
        return ast.TimePeriod(tuple(parts), span=span_of(node))

    def params(self, node: ParseNode | None) -> tuple[tuple[ast.Expr, ...], NamedArguments]:
        """Return positional and named parameters; empty tuples for a missing list."""
        if node is None:
            return (), ()
        positional = [child for child in node.children if child.data != "named_arg"]
        named = [child for child in node.children if child.data == "named_arg"]
        return self.exprs(positional), self.named(named)

    def crontab(self, node: ParseNode) -> ast.Crontab:
        return ast.Crontab(self.cron_fields(node), span=span_of(node))

    def cron_fields(self, node: ParseNode) -> tuple[ast.Expr, ...]:
        """Return crontab fields; ``name:8`` is a range that begins with a variable, not a named parameter."""
        return tuple(self.cron_field(child) for child in node.children)

    def cron_field(self, node: Any) -> ast.Expr:
        if node.data == "named_arg":
            token, value = node.children
            low = ast.Chain((ast.NameStep(unescape_name(token), span=span_of(token)),), span=span_of(token))
            return ast.CronStep("range", (low, self.expr(value)), span=span_of(node))
        value = self.expr(node)
        if isinstance(value, ast.Star):
            return ast.CronStep("star", span=value.span)
        return value

    def cron_range(self, node: ParseNode) -> ast.Expr:
        kind, operands = CRON_KINDS[node.data]
        return ast.CronStep(kind, self.exprs(node.children[-operands:] if operands else ()), span=span_of(node))

    cron_step = cron_nth_last = cron_nearest_weekday = cron_last = cron_last_weekday = cron_range

    def cron_list(self, node: ParseNode) -> ast.Expr:
        return ast.CronStep("list", self.cron_fields(node), span=span_of(node))


def _literal(text: str, node: ParseNode) -> ast.Literal:
    value, type_name = parse_number(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise Misplaced(f"the number {shorten_line(text)} is too large for a {type_name}", span_of(node))
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        hint = f"a double: {value}.0" if abs(value) < _TOO_LARGE else "a double, such as 1e30"
        raise Misplaced(f"the number {shorten_line(text)} is too large for a long", span_of(node), hint)
    return ast.Literal(value, type_name, span=span_of(node))


def whole_number(text: str, base: int = 10) -> int:
    """Return the value of an integer as written; of one with very many digits a number that is too large for a long."""
    if len(text) > _MOST_DIGITS:
        text = "-" * text.startswith("-") + text.lstrip("-").lower().removeprefix("0x").lstrip("0")
        if len(text) > _MOST_DIGITS:  # Python refuses to convert 4,301 digits
            return -_TOO_LARGE if text.startswith("-") else _TOO_LARGE
    return int(text or "0", base)


def parse_number(text: str) -> tuple[int | float, str]:
    """Return value and type of a number as written.

    The suffix L, f or d decides the type. Small hexadecimal numbers are byte; an int that is too large is long.
    """
    if text[-2:-1] and text.lower().lstrip("-").startswith("0x"):
        value = whole_number(text, 16)
        if -128 <= value < 128:
            return value, "byte"
        return value, "int" if -(2**31) < value < 2**31 else "long"
    suffix = text[-1].lower()
    if suffix == "l":
        return whole_number(text[:-1]), "long"
    if suffix == "f":
        return struct.unpack("f", struct.pack("f", float(text[:-1])))[0], "float"
    if suffix == "d":
        return float(text[:-1]), "double"
    if text.lstrip("-").isdigit():
        value = whole_number(text)
        return value, "int" if -(2**31) < value < 2**31 else "long"
    return float(text), "double"


def unquote(token: str) -> str:
    r"""Return the value of a string literal: ``\\uXXXX`` is a character, any other backslash is dropped."""
    text = token[1:-1]
    if "\\" not in text:
        return text
    return ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2], text)
