"""Readings that are rarely meant: EPL that compiles, and says something else than most people mean by it.

`rare_readings` judges the text alone, without a catalog. The editor shows the diagnostics as warnings; a statement runs
all the same. To add one, add a rule to `_RULES`: it takes a statement and yields diagnostics for its nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeGuard

from cepbook.errors import Diagnostic, ParseError, Span
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.syntax.reader.lexer import tokenize
from cepbook.lang.syntax.reader.parser import parse_epl

RARELY_MEANT = "rarely-meant"
_PARAMETER = re.compile(r":[^\W\d]\w*\Z")


def rare_readings(source: str) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each reading that is rarely meant; none if the text is not EPL."""
    try:
        module = parse_epl(source)
    except ParseError:
        return ()
    problems = [problem for statement in module.statements for rule in _RULES for problem in rule(statement, source)]
    problems += _comments(source)
    return tuple(sorted(problems, key=lambda problem: problem.span.start))


def _rarely(message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(RARELY_MEANT, message, span, hint)


def _written(node: ast.SyntaxNode, source: str) -> str:
    return source[node.span.start : node.span.end]


def _comments(source: str) -> Iterator[Diagnostic]:
    """Two minus signs that touch: a comment in SQL."""
    for piece in tokenize(source)[0]:
        for first, second in zip(piece.tokens, piece.tokens[1:], strict=False):
            if first.kind == second.kind == "-" and first.end == second.start:
                span = Span(first.start, second.end)
                yield _rarely("two minus signs subtract a negative value", span, "a comment begins with //")


def _null(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """A comparison with null, which is null."""
    for node in walk(statement):
        if isinstance(node, ast.Compare) and node.op in ("=", "!="):
            for side, other in ((node.left, node.right), (node.right, node.left)):
                if isinstance(side, ast.Literal) and side.type == "null":
                    test = "is" if node.op == "=" else "is not"
                    hint = f"write `{_written(other, source)} {test} null`"
                    yield _rarely(f"`{node.op} null` is never true", node.span, hint)
                    break


def _texts(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """A text that looks like a parameter, or is selected or grouped by in double quotes, as SQL writes names."""
    for node in walk(statement):
        if isinstance(node, ast.Literal) and isinstance(node.value, str) and _PARAMETER.match(node.value):
            hint = f"write `{node.value}` without quotes"
            yield _rarely("a text in quotes, no parameter", node.span, hint)
        names: tuple[object, ...] = ()
        if isinstance(node, ast.SelectItem) and node.alias is None:
            names = (node.expr,)
        elif isinstance(node, ast.GroupBy):
            names = node.items
        elif isinstance(node, ast.OrderItem):
            names = (node.expr,)
        for name in names:
            if isinstance(name, ast.Literal) and _written(name, source).startswith('"'):
                plain = str(name.value)
                meant = plain if plain.isidentifier() else f"`{plain}`"
                where = "write" if plain.isidentifier() else "a name with a blank stands in backticks:"
                hint = f"write `{meant}`" if plain.isidentifier() else f"{where} {meant}"
                yield _rarely("a text, the same in every row: double quotes are no names", name.span, hint)


def _percentages(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """A percentile below one percent: elsewhere the second parameter is a fraction."""
    for node in walk(statement):
        if not isinstance(node, ast.NameStep) or not node.args or len(node.args) < 2:
            continue
        row, percent = AGGREGATES.get(node.name.lower()), node.args[1]
        if row is not None and row.second == "percent":
            value = percent.value if isinstance(percent, ast.Literal) else None
            if isinstance(value, float) and 0 < value < 1:
                hint = f"write `{round(100 * value, 10):g}`: the percentage is from 0 to 100"
                yield _rarely("a percentile below one percent", percent.span, hint)


def _patterns(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """A pattern that matches once, ``a -> not b``, which is true at once, and an ``every`` around another one."""
    for node in walk(statement):
        if _is_every(node) and _is_every(node.operand):
            fact = "each match of an `every` within an `every` begins both again: they double with every match"
            yield _rarely(fact, node.span, f"one is enough: {_written(node.operand, source)}")
        if isinstance(node, ast.PatternFollowedBy):
            for operand in node.operands[1:]:
                if isinstance(operand, ast.PatternNot):
                    hint = f"give it a time: (timer:interval(1 min) and {_written(operand, source)})"
                    yield _rarely("`-> not …` is true as soon as what precedes it is", operand.span, hint)
        if isinstance(node, ast.PatternStream) and isinstance(statement, ast.Select) and statement.context is None:
            nodes = list(walk(node.pattern))
            every = any(isinstance(inner, (ast.PatternEvery, ast.PatternRepeat)) for inner in nodes)
            if not every and any(isinstance(inner, ast.PatternFilter) for inner in nodes):
                hint = f"to match again and again write every: pattern [every {_written(node.pattern, source)}]"
                yield _rarely("a pattern without every matches once", node.pattern.span, hint)


def _annotations(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """An annotation of a pattern at the beginning of the statement, where it has no meaning."""
    for annotation in statement.annotations:
        if annotation.name.lower() in (ast.SUPPRESS.lower(), ast.DISCARD.lower()):
            written = _written(annotation, source)
            hint = f"put it behind `pattern`: from pattern {written} [ … ]"
            yield _rarely(f"`{written}` has no effect on the whole statement", annotation.span, hint)


def _is_every(node: object) -> TypeGuard[ast.PatternEvery]:
    return isinstance(node, ast.PatternEvery) and node.distinct is None


def _limit(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """``limit`` where each delivery has one row."""
    if not isinstance(statement, ast.Select) or statement.limit is None or statement.output is not None:
        return
    names = [window.name for source_ in statement.sources for window in source_.windows]
    if len(statement.sources) == 1 and not any(name in WINDOWS and WINDOWS[name].batch for name in names):
        count = _written(statement.limit.limit, source)
        fact = "limit counts the rows of each delivery, which has a row for each event"
        hint = (
            f"the first events are #firstlength({count}), the last #length({count}); or write output snapshot every …"
        )
        yield _rarely(fact, statement.limit.span, hint)


def _contexts(statement: ast.Statement, source: str) -> Iterator[Diagnostic]:
    """A session whose end belongs to all sessions, and a partition of every second day."""
    for node in walk(statement):
        if isinstance(node, ast.NonOverlappingContext) and node.end is not None and node.start.crontabs:
            start, end = (_written(condition, source) for condition in (node.start, node.end))
            if start == end:
                hint = f"write `initiated by {start} terminated by {end}`"
                yield _rarely("a partition begins when none is open: this one covers every second day", node.span, hint)
        if not isinstance(node, ast.OverlappingContext) or node.terminated is None:
            continue
        begin, finish = node.initiated, node.terminated
        if begin.kind == finish.kind == "filter" and begin.stream is not None and finish.stream is not None:
            read = {step.name for step in walk(finish.stream.filters) if isinstance(step, ast.NameStep)}
            if begin.alias not in read:
                name = begin.alias or "begun"
                fact = f"each `{finish.stream.type_name}` ends all partitions, whichever event began them"
                alias = "" if begin.alias else f" as {name}"
                hint = f"name the key: initiated by {_written(begin, source)}{alias}"
                hint += f" terminated by {finish.stream.type_name}(id = {name}.id)"
                yield _rarely(fact, finish.stream.span, hint)


_RULES: tuple[Callable[[ast.Statement, str], Iterator[Diagnostic]], ...] = (
    _null,
    _texts,
    _patterns,
    _annotations,
    _percentages,
    _limit,
    _contexts,
)
