"""Short ways to write and to parse syntax trees in tests."""

from __future__ import annotations

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast import Chain, Literal, NameStep
from cepbook.lang.syntax.reader.parser import parse_epl


def one(text: str) -> ast.Statement:
    (statement,) = parse_epl(text).statements
    return statement


def select(text: str) -> ast.Select:
    statement = one(text)
    assert isinstance(statement, ast.Select)
    return statement


def expr(text: str) -> ast.Expr:
    found = select(f"select {text} from A").items[0].expr
    assert found is not None
    return found


def name(*steps: str) -> Chain:
    return Chain(tuple(NameStep(step) for step in steps))


def number(value: int) -> Literal:
    return Literal(value, "int")


def window_args(text: str) -> tuple[ast.Expr, ...]:
    return select(f"select * from A#w({text})").sources[0].windows[0].args


def pattern(text: str) -> ast.PatternNode:
    stream = select(f"select * from pattern [{text}]").sources[0].stream
    assert isinstance(stream, ast.PatternStream)
    return stream.pattern


def atom(tag: str | None, type_name: str) -> ast.PatternFilter:
    return ast.PatternFilter(tag, ast.FilterStream(type_name))


A, B, C = atom("a", "A"), atom("b", "B"), atom("c", "C")
