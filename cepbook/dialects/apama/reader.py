"""Read Apama text into `tree.ApamaProgram`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from cepbook.dialects.apama import tree as a
from cepbook.dialects.apama.hints import APAMA_KEYWORDS, diagnose
from cepbook.errors import MOST_WORDS, NO_SPAN, Diagnostic, ParseError, Span, too_long
from cepbook.lang.syntax.reader.expression_reader import whole_number
from cepbook.lang.syntax.reader.parser_tables import load_parser

ORIGIN = "apama"
_LARGEST = 2**63 - 1
_WORD = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|\w+|[^\w\s]""", re.DOTALL)  # about as the grammar has them


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return load_parser(ORIGIN, __package__, ("grammar.lark",), "contextual")


@lru_cache(maxsize=16)
def parse(text: str) -> a.ApamaProgram:
    """Return the program of `text`. Raises ParseError with the first problem."""
    count = sum(1 for _ in _WORD.finditer(text)) if len(text) > MOST_WORDS else 0
    if count > MOST_WORDS:
        raise ParseError((too_long(count, Span(0, 1)),), text, ORIGIN)
    try:
        parse_tree: Tree[Token] = _parser().parse(text)
    except UnexpectedInput as error:
        raise ParseError((_diagnostic(error, text),), text, ORIGIN) from None
    try:
        program: a.ApamaProgram = _Reader().transform(parse_tree)
    except VisitError as error:
        if isinstance(error.orig_exc, _Refused):
            raise ParseError((error.orig_exc.diagnostic,), text, ORIGIN) from None
        raise error.orig_exc from None  # of nesting too deep
    return program


class _Refused(Exception):
    """A token that the grammar accepts and the language does not."""

    def __init__(self, token: Token, fact: str, hint: str) -> None:
        self.diagnostic = Diagnostic("syntax-error", fact, _token_span(token), hint)
        super().__init__(fact)


def _checked_name(token: Token) -> str:
    if token in APAMA_KEYWORDS:
        hint = "it means something in queries; fields may be called so"
        raise _Refused(token, f"`{token}` is a keyword, it cannot be a name", hint)
    return str(token)


def _diagnostic(error: UnexpectedInput, text: str) -> Diagnostic:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        start = error.token.start_pos or 0
        return diagnose(text, Span(start, start + len(error.token)), str(error.token), set(error.accepts or ()))
    if isinstance(error, UnexpectedCharacters):
        start = error.pos_in_stream or 0
        word = re.compile(r"\w+|.", re.DOTALL).match(text, start)
        text_at_error = word.group() if word is not None else ""
        return diagnose(text, Span(start, start + len(text_at_error)), text_at_error, set(error.allowed or ()))
    end = len(text.rstrip())
    accepts = set(error.accepts or ()) if isinstance(error, UnexpectedToken) else set[str]()
    return diagnose(text, Span(end, end), "", accepts)


def _with_span(method: Callable[..., Any], rule: str, children: Sequence[Any], meta: Any) -> Any:
    return method(NO_SPAN if meta.empty else Span(meta.start_pos, meta.end_pos), children)


@v_args(wrapper=_with_span)
class _Reader(Transformer[Token, Any]):
    """Builds the tree; one method per rule of the grammar. Children of optional rules may be None."""

    def float(self, span: Span, children: Sequence[Token]) -> a.Expr:
        return a.ApamaLiteral(float(children[0]), span=span)

    def integer(self, span: Span, children: Sequence[Token]) -> a.Expr:
        (token,) = children
        value = whole_number(token, 16 if token[:2] in ("0x", "0X") else 10)
        if value > _LARGEST:
            raise _Refused(token, "an integer has 64 bits, this one needs more", "write a float, such as 1e20")
        return a.ApamaLiteral(value, span=span)

    def string(self, span: Span, children: Sequence[Token]) -> a.Expr:
        text = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), children[0][1:-1])
        return a.ApamaLiteral(text, span=span)

    def true(self, span: Span, children: Sequence[Token]) -> a.Expr:
        return a.ApamaLiteral(True, span=span)

    def false(self, span: Span, children: Sequence[Token]) -> a.Expr:
        return a.ApamaLiteral(False, span=span)

    def name(self, span: Span, children: Sequence[Token]) -> a.Expr:
        return a.ApamaName(_checked_name(children[0]), span=span)

    def member(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return a.ApamaMember(children[0], str(children[1]), span=span)

    def method(self, span: Span, children: Sequence[Any]) -> a.Expr:
        target, name, *args = children
        return a.ApamaMember(target, str(name), _present(args), span=span)

    def call(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return a.ApamaCall(str(children[0]), _present(children[1:]), span=span)

    def unary(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return a.ApamaUnary(str(children[0]), children[1], span=span)

    def binary(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return a.ApamaBinary(str(children[1]), children[0], children[2], span=span)

    compare = binary

    def relop(self, span: Span, children: Sequence[Token]) -> str:
        return str(children[0])

    def equal(self, span: Span, children: Sequence[Token]) -> str:
        return "="

    def template(self, span: Span, children: Sequence[Any]) -> a.EventTemplate:
        return a.EventTemplate(_checked_name(children[0]), _present(children[1:]), span=span)

    def named(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(str(children[0]), children[1], children[2], span=span)

    def named_range(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(str(children[0]), "in", *children[1], span=span)

    def compared(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(None, children[0], children[1], span=span)

    def ranged(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(None, "in", *children[0], span=span)

    def positional(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(None, "=", children[0], span=span)

    def any(self, span: Span, children: Sequence[Any]) -> a.TemplateConstraint:
        return a.TemplateConstraint(None, "=", None, span=span)

    def range(self, span: Span, children: Sequence[Any]) -> tuple[a.Expr, a.Expr]:
        return children[0], children[1]

    def stream_name(self, span: Span, children: Sequence[Token]) -> a.StreamReference:
        return a.StreamReference(_checked_name(children[0]), span=span)

    def everything(self, span: Span, children: Sequence[Any]) -> a.ApamaWindow:
        return a.ApamaWindow(True, children[0] or (), span=span)

    def by_time(self, span: Span, children: Sequence[Any]) -> a.ApamaWindow:
        partition, within, retain, unique = children
        return a.ApamaWindow(False, partition or (), within, retain, unique, span=span)

    def by_size(self, span: Span, children: Sequence[Any]) -> a.ApamaWindow:
        partition, retain, unique = children
        return a.ApamaWindow(False, partition or (), None, retain, unique, span=span)

    def partition(self, span: Span, children: Sequence[Any]) -> tuple[a.Expr, ...]:
        return _present(children)

    def within(self, span: Span, children: Sequence[Any]) -> tuple[a.Expr, a.Expr | None]:
        return children[0], children[1]

    retain = within

    def unique(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return children[0]  # type: ignore[no-any-return]

    def query(self, span: Span, children: Sequence[Any]) -> a.ApamaQuery:
        item, source, window, second, where, group_by, having, rstream, select, alias = children
        first = a.QueryInput(_checked_name(item), source, window, span=_token_span(item))
        inputs, keys = ((first,), None) if second is None else ((first, second[0]), second[1])
        removed = None if rstream is None else _token_span(rstream)
        return a.ApamaQuery(inputs, keys, where, group_by or (), having, removed, select, alias, span=span)

    def cross(self, span: Span, children: Sequence[Any]) -> tuple[a.QueryInput, None]:
        item, source, window = children
        return a.QueryInput(_checked_name(item), source, window, span=_token_span(item)), None

    def equi(self, span: Span, children: Sequence[Any]) -> tuple[a.QueryInput, tuple[a.Expr, a.Expr]]:
        item, source, window, left, right = children
        return a.QueryInput(_checked_name(item), source, window, span=_token_span(item)), (left, right)

    def where(self, span: Span, children: Sequence[Any]) -> a.Expr:
        return children[0]  # type: ignore[no-any-return]

    having = where

    def group_by(self, span: Span, children: Sequence[Any]) -> tuple[a.Expr, ...]:
        return _present(children)

    def name_of(self, span: Span, children: Sequence[Token]) -> str:
        return str(children[0])

    def using(self, span: Span, children: Sequence[Token]) -> a.UsingDeclaration:
        return a.UsingDeclaration(".".join(children), span=span)

    def type(self, span: Span, children: Sequence[Any]) -> a.TypeReference:
        return a.TypeReference(str(children[0]), _present(children[1:]), span=span)

    def field(self, span: Span, children: Sequence[Any]) -> tuple[a.TypeReference, str]:
        return children[0], str(children[1])

    def event_decl(self, span: Span, children: Sequence[Any]) -> a.EventDeclaration:
        name, *fields = children
        return a.EventDeclaration(_checked_name(name), tuple(fields), span=span)

    def stream_decl(self, span: Span, children: Sequence[Any]) -> a.StreamDeclaration:
        type_, name, value = children
        return a.StreamDeclaration(type_, _checked_name(name), value, span=span)

    def start(self, span: Span, children: Sequence[Any]) -> a.ApamaProgram:
        *declarations, result = children
        return a.ApamaProgram(tuple(declarations), result, span=span)


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _token_span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def _present(children: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)
