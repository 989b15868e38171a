"""Read running queries into syntax trees. The grammar is ``grammar.lark`` in this folder."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from cepbook.dialects.streamcruncher.hints import diagnose
from cepbook.dialects.streamcruncher.lexer import DURATION_UNITS, RunningQueryLexer, tokenize
from cepbook.errors import MOST_WORDS, ParseError, Span, too_long
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import ExpressionReader, Misplaced, ParseNode, parse_number, span_of
from cepbook.lang.syntax.reader.parser_tables import load_parser

DIALECT_NAME = "streamcruncher"
_MOST = 2**31 - 1  # rows of a window


@lru_cache(maxsize=1)
def _parser() -> Any:
    return load_parser(DIALECT_NAME, __package__, ("grammar.lark",), RunningQueryLexer)


def parse(text: str) -> ast.Module:
    """Return a module with the one query of `text`. Raises ParseError with the first problem."""
    piece, bad = tokenize(text)
    if bad is None and len(piece.tokens) > MOST_WORDS:
        bad = too_long(len(piece.tokens), Span(piece.tokens[0].start, piece.tokens[0].end))
    if bad is not None:
        raise ParseError((bad,), text, DIALECT_NAME)
    try:
        tree: Tree[Token] = _parser().parse(piece)
        query: ast.RunningQuery = _Reader().read(tree)
    except UnexpectedToken as error:
        raise ParseError((diagnose(error, piece, _parser()),), text, DIALECT_NAME) from None
    except Misplaced as error:
        raise ParseError((error.diagnostic,), text, DIALECT_NAME) from None
    return ast.Module((query,), span=Span(0, len(text)))


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span=span_of(token))


class _Reader(ExpressionReader):
    """Reads a parse tree; each method is named after the rule (or alias) that it reads."""

    def start(self, node: ParseNode) -> ast.RunningQuery:
        return ast.RunningQuery(self.read(node.children[0]), span=span_of(node))

    def query(self, node: ParseNode) -> ast.Select:
        _, first, distinct, items, *rest = node.children
        sources = [self.read(child) for child in rest if child.data in _SOURCES]
        clauses = {child.data: child for child in rest if child.data not in _SOURCES}
        select = ast.Select(self.read(items), tuple(sources), distinct=distinct is not None, span=span_of(node))
        select = replace(select, joins=tuple(ast.Join("inner", None) for _ in sources[1:]))
        if "where" in clauses:
            select = replace(select, where=self.where(clauses["where"]))
        if "group_by" in clauses:
            *keys, having = clauses["group_by"].children
            keys_ = ast.GroupBy(self.exprs(keys), span=span_of(clauses["group_by"]))
            select = replace(select, group_by=keys_, having=self.optional_expr(having))
        if "order_by" in clauses:
            select = replace(select, order_by=self.reads(clauses["order_by"].children))
        if "limit" in clauses:
            if first is not None:
                fact = "`first` and `limit` mean the same"
                raise Misplaced(fact, span_of(clauses["limit"]), "keep one of them")
            limit, offset = clauses["limit"].children
            counts = self._rows(limit), None if offset is None else self._rows(offset)
            select = replace(select, limit=ast.RowLimit(*counts, span=span_of(clauses["limit"])))
        elif first is not None:
            select = replace(select, limit=ast.RowLimit(self._rows(first), span=span_of(first)))
        return select

    def _rows(self, token: Token) -> ast.Expr:
        value, kind = parse_number(str(token))
        if not isinstance(value, int):
            raise Misplaced(f"a number of rows is a whole number, found {token}", span_of(token), "such as 10")
        return ast.Literal(value, kind, span=span_of(token))

    def select_list(self, node: ParseNode) -> tuple[ast.SelectItem, ...]:
        return self.reads(node.children)

    def all_columns(self, node: ParseNode) -> ast.SelectItem:
        return ast.SelectItem(None, wildcard=True, span=span_of(node))

    def columns_of(self, node: ParseNode) -> ast.SelectItem:
        return ast.SelectItem(None, stream=str(node.children[0]), wildcard=True, span=span_of(node))

    def plain_item(self, node: ParseNode) -> ast.SelectItem:
        return ast.SelectItem(self.expr(node.children[0]), span=span_of(node))

    def named_item(self, node: ParseNode) -> ast.SelectItem:
        value, alias = node.children
        return ast.SelectItem(self.expr(value), str(alias), span=span_of(node))

    def ascending(self, node: ParseNode) -> ast.OrderItem:
        return ast.OrderItem(self.expr(node.children[0]), node.data == "descending", span=span_of(node))

    descending = ascending

    def where(self, node: ParseNode) -> ast.Expr:
        return self.expr(node.children[0])

    def partitioned(self, node: ParseNode) -> ast.StreamSource:
        name, *stages, alias = node.children  # without an alias the partition has the name of the stream
        stream = ast.PartitionStream(str(name), self.reads(stages), span=span_of(name))
        return ast.StreamSource(stream, (), str(alias or name), span=span_of(node))

    def itself(self, node: ParseNode) -> ast.StreamSource:
        of, alias = node.children
        stream = ast.SameStream(str(of), span=span_of(of))
        return ast.StreamSource(stream, (), str(alias), span=span_of(node))

    def table(self, node: ParseNode) -> ast.StreamSource:
        name, alias = node.children
        stream = ast.FilterStream(str(name), span=span_of(name))
        return ast.StreamSource(stream, (), None if alias is None else str(alias), span=span_of(node))

    def stage(self, node: ParseNode) -> ast.Stage:
        parts = {child.data: child for child in node.children}
        keys = parts["keys"].children if "keys" in parts else ()
        (window,) = (child for child in node.children if child.data in _WINDOWS)
        pinned, aggregates = None, ()
        if "aggregates" in parts:
            pinned, *aggregates = parts["aggregates"].children
        where = self.where(parts["where"]) if "where" in parts else None
        names, stage_window = tuple(map(_name, keys)), self.read(window)
        return ast.Stage(names, stage_window, pinned is not None, self.reads(aggregates), where, span=span_of(node))

    def _size(self, token: Token, what: str) -> int:
        value, _ = parse_number(str(token))
        if not isinstance(value, int):
            raise Misplaced(f"{what} is a whole number, found {token}", span_of(token), "such as last 5")
        if value < 1:
            raise Misplaced(f"{what} must be at least 1", span_of(token), "without a window no row is retained")
        if value > _MOST:
            raise Misplaced(f"{what} is too large", span_of(token), f"at most {_MOST:,}")
        return value

    def sliding(self, node: ParseNode) -> ast.StageWindow:
        kind: Any = str(node.data)
        return ast.StageWindow(kind, self._size(node.children[0], "the window size"), span=span_of(node))

    tumbling = random = sliding

    def recent(self, node: ParseNode) -> ast.StageWindow:
        size, unit, at_most = node.children
        most = None if at_most is None else self._size(at_most, "the maximum")
        length = self._size(size, "the window size") * DURATION_UNITS[unit]
        return ast.StageWindow("recent", length, most, span=span_of(node))

    def ranked(self, node: ParseNode) -> ast.StageWindow:
        word, size, column, *group = node.children
        names = tuple(map(_name, group[0].children[1:])) if group else ()
        kind: Any = str(word)
        amount = self._size(size, "the window size")
        return ast.StageWindow(kind, amount, None, _name(column), names, span=span_of(node))

    def aggregate(self, node: ParseNode) -> ast.StageAggregate:
        function, column, alias = map(_name, (*node.children[:2], node.children[3]))
        return ast.StageAggregate(function, column, node.children[2] is not None, alias, span=span_of(node))

    def alert(self, node: ParseNode) -> ast.StreamSource:
        columns, *rest = node.children
        sources = self.reads(child for child in rest if child.data == "correlated")
        patterns = self.reads(child for child in rest if child.data == "present")
        stream = ast.AlertStream(self.reads(columns.children), sources, patterns, span=span_of(node))
        return ast.StreamSource(stream, span=span_of(node))

    def projection(self, node: ParseNode) -> ast.Projected:
        return ast.Projected(*map(_name, node.children), span=span_of(node))

    def correlated(self, node: ParseNode) -> ast.Correlated:
        name, *stages, alias, column = node.children
        stream = ast.PartitionStream(str(name), self.reads(stages), span=span_of(name))
        source = ast.StreamSource(stream, (), str(alias or name), span=span_of(alias or name))
        return ast.Correlated(source, _name(column), span=span_of(node))

    def present(self, node: ParseNode) -> ast.Present:
        members = [member.children for member in node.children]
        required = tuple(_name(name) for negated, name in members if negated is None)
        excluded = tuple(_name(name) for negated, name in members if negated is not None)
        return ast.Present(required, excluded, span=span_of(node))

    def row_status(self, node: ParseNode) -> ast.Expr:
        alias, _, *words = node.children
        status: Any = " ".join(str(word) for word in words if word is not None)
        return ast.RowStatus(None if alias is None else str(alias), status, span=span_of(node))

    def is_null(self, node: ParseNode) -> ast.Expr:
        operand, negated = node.children
        null = ast.Literal(None, "null", span=span_of(node))
        return ast.Compare("is" if negated is None else "is not", self.expr(operand), null, span=span_of(node))

    def like(self, node: ParseNode) -> ast.Expr:
        operand, negated, _, pattern = node.children
        return ast.Like(self.expr(operand), self.expr(pattern), None, negated is not None, span=span_of(node))

    def case(self, node: ParseNode) -> ast.Expr:
        *branches, default = node.children
        bound_branches = tuple((self.expr(b.children[0]), self.expr(b.children[1])) for b in branches)
        return ast.Case(None, bound_branches, self.optional_expr(default), span=span_of(node))

    def string(self, node: ParseNode) -> ast.Literal:
        return ast.Literal(str(node.children[0])[1:-1].replace("''", "'"), "string", span=span_of(node))

    def minus(self, node: ParseNode) -> ast.Expr:
        (inner,) = node.children
        if inner.data == "number":
            return self.negative(Tree("negative", inner.children, node.meta))
        return ast.Unary("-", self.expr(inner), span=span_of(node))

    def column(self, node: ParseNode) -> ast.Expr:
        steps = tuple(ast.NameStep(str(token), span=span_of(token)) for token in node.children)
        return ast.Chain(steps, span=span_of(node))

    def call_of_all(self, node: ParseNode) -> ast.Expr:
        step = ast.NameStep(str(node.children[0]), (), wildcard=True, span=span_of(node))
        return ast.Chain((step,), span=span_of(node))

    def call(self, node: ParseNode) -> ast.Expr:
        name, distinct, *args = node.children
        step = ast.NameStep(str(name), self.exprs(args), distinct=distinct is not None, span=span_of(node))
        return ast.Chain((step,), span=span_of(node))


_SOURCES = ("partitioned", "itself", "table", "alert")
_WINDOWS = ("sliding", "recent", "tumbling", "random", "ranked")
