"""StreamCruncher's running queries: text to the plan that all dialects share.

The grammar is ``cepbook/lang/grammar/streamcruncher.lark`` (StreamCruncher - Basics; what is not in that document is
not in the grammar).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedToken

from cepbook.dialects.dialect import Dialect
from cepbook.dialects.streamcruncher.bind import bind_running_query
from cepbook.dialects.streamcruncher.hints import diagnose
from cepbook.dialects.streamcruncher.lexer import DURATION_UNITS, RunningQueryLexer, tokenize
from cepbook.dialects.streamcruncher.reference_tables import TableRows, create_window_for, read_tables, widen_rows
from cepbook.errors import BindError, Diagnostic, ParseError, Span, UsageError
from cepbook.lang.bind import Options, StatementRule, bind
from cepbook.lang.bind.statements.create_window import bind_create_window
from cepbook.lang.explain.syntax_tree import show_ast
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import CreateWindowStatement, CycleStatement, ModulePlan
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES, CYCLE_WINDOWS
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import (
    ExpressionReader,
    MisplacedSyntax,
    ParseNode,
    parse_number,
    span_of,
)
from cepbook.lang.syntax.reader.parser_tables import load_parser
from cepbook.lang.syntax.source_text import settings_of

DIALECT_NAME = "streamcruncher"
_MOST = 2**31 - 1  # rows of a window


@lru_cache(maxsize=1)
def _parser() -> Any:
    return load_parser(DIALECT_NAME, ("streamcruncher.lark",), RunningQueryLexer)


def parse(text: str) -> ast.Module:
    """The one query of `text`. Errors: ParseError with the first thing that is wrong."""
    piece, bad = tokenize(text)
    if bad is not None:
        raise ParseError((bad,), text, DIALECT_NAME)
    try:
        tree: Tree[Token] = _parser().parse(piece)
        query: ast.RunningQuery = _Reader().read(tree)
    except UnexpectedToken as error:
        raise ParseError((diagnose(error, piece, _parser()),), text, DIALECT_NAME) from None
    except MisplacedSyntax as error:
        raise ParseError((error.diagnostic,), text, DIALECT_NAME) from None
    return ast.Module((query,), span=Span(0, len(text)))


def translate(text: str, catalog: Catalog, names: Collection[str] = (), options: Options = Options()) -> ModulePlan:
    """The plan of a query. Errors: ParseError, BindError; UsageError for a setting that makes no sense."""
    module, settings = parse(text), settings_of(text)
    name = settings.get("name")
    (query,) = module.statements
    if name is not None:
        query = replace(query, annotations=(ast.Annotation("name", name, span=Span(0, 0)),))
    tables = read_tables(settings.get("tables"))
    new = [
        create_window_for(each, columns, rows, each in names or each == name)
        for each, (columns, rows) in tables.items()
        if each not in catalog.event_types
    ]
    rules: dict[type[ast.Statement], StatementRule] = {
        ast.CreateWindow: bind_create_window,
        ast.RunningQuery: partial(bind_running_query, settings=settings),
    }
    try:
        sql = replace(options, integer_division=True)
        found = bind(replace(module, statements=(*new, query)), catalog, text, names, sql, rules)
    except BindError as error:
        raise BindError(tuple(_in_its_words(each, text) for each in error.diagnostics), text, DIALECT_NAME) from None
    return _filled(found, tables, catalog) if tables else found


def _filled(found: ModulePlan, tables: Mapping[str, tuple[tuple[str, ...], TableRows]], catalog: Catalog) -> ModulePlan:
    """The plan whose query gives the tables their rows. Errors: UsageError for columns that a table does not have."""
    *windows, query = found.statements
    own = {w.store.name: w.output_type for w in windows if isinstance(w, CreateWindowStatement)}
    given = []
    for name, (columns, rows) in tables.items():
        of = (own[name] if name in own else catalog.event_types[name]).properties
        if name not in own and (name not in catalog.stores or set(of) != set(columns)):
            raise UsageError(f"`{name}` is there already, and has the columns {', '.join(of)}")
        given.append((name, columns, widen_rows(rows, [of[column] for column in columns])))
    assert isinstance(query, CycleStatement)
    return replace(found, statements=(*windows, replace(query, tables=tuple(given))))


_WORDS = {"property or stream": "column or source", "property": "column", "event type": "stream", "statement": "query"}


def _in_its_words(found: Diagnostic, text: str) -> Diagnostic:
    """A diagnostic that the binder of selects gives about `text`, in the words of the dialect."""
    message = found.message
    for word, own in _WORDS.items():
        message = message.replace(f"no {word} ", f"no {own} ")
    hint = found.hint
    if found.code == "ambiguous-property":
        message = message.replace("a property of several streams", "a column of several sources")
        hint = f"write {message.partition('`')[2].partition('`')[0]} with its source before it, as in w.column"
    named = text[found.span.start : found.span.end]
    if found.code == "unknown-property" and named[:1] == '"' and not (hint or "").startswith("did"):
        hint = f"names stand in double quotes, texts in single ones: '{named[1:-1]}'"
    return replace(found, message=message, hint=hint)


def declared_names(text: str) -> frozenset[str]:
    """The name of the query, if it is given one."""
    parse(text)
    name = settings_of(text).get("name")
    return frozenset() if name is None else frozenset((name,))


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span=span_of(token))


class _Reader(ExpressionReader):
    """Reads a parse tree; each method is named after the rule (or alias) that it reads."""

    def start(self, node: ParseNode) -> ast.RunningQuery:
        return ast.RunningQuery(self.read(node.children[0]), span=span_of(node))

    def query(self, node: ParseNode) -> ast.Select:
        _, first, distinct, items, *rest = node.children
        sources = [self.read(each) for each in rest if each.data in _SOURCES]
        clauses = {each.data: each for each in rest if each.data not in _SOURCES}
        found = ast.Select(self.read(items), tuple(sources), distinct=distinct is not None, span=span_of(node))
        found = replace(found, joins=tuple(ast.Join("inner", None) for _ in sources[1:]))
        if "where" in clauses:
            found = replace(found, where=self.where(clauses["where"]))
        if "group_by" in clauses:
            *keys, having = clauses["group_by"].children
            keys_ = ast.GroupBy(self.exprs(keys), span=span_of(clauses["group_by"]))
            found = replace(found, group_by=keys_, having=None if having is None else self.expr(having))
        if "order_by" in clauses:
            found = replace(found, order_by=tuple(map(self.read, clauses["order_by"].children)))
        if "limit" in clauses:
            if first is not None:
                fact = "`first` and `limit` say the same"
                raise MisplacedSyntax(fact, span_of(clauses["limit"]), "keep one of them")
            limit, offset = clauses["limit"].children
            counts = self._rows(limit), None if offset is None else self._rows(offset)
            found = replace(found, limit=ast.RowLimit(*counts, span=span_of(clauses["limit"])))
        elif first is not None:
            found = replace(found, limit=ast.RowLimit(self._rows(first), span=span_of(first)))
        return found

    def _rows(self, token: Token) -> ast.Expr:
        value, kind = parse_number(str(token))
        if not isinstance(value, int):
            raise MisplacedSyntax(f"a number of rows is a whole number, found {token}", span_of(token), "such as 10")
        return ast.Literal(value, kind, span=span_of(token))

    # ------------------------------------------------------------ select list
    def select_list(self, node: ParseNode) -> tuple[ast.SelectItem, ...]:
        return tuple(map(self.read, node.children))

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
        return ast.OrderItem(self.expr(node.children[0]), span=span_of(node))

    def descending(self, node: ParseNode) -> ast.OrderItem:
        return ast.OrderItem(self.expr(node.children[0]), True, span=span_of(node))

    def where(self, node: ParseNode) -> ast.Expr:
        return self.expr(node.children[0])

    # ------------------------------------------------------------ sources
    def partitioned(self, node: ParseNode) -> ast.StreamSource:
        name, *stages, alias = node.children
        stream = ast.PartitionStream(str(name), tuple(map(self.read, stages)), span=span_of(name))
        return ast.StreamSource(stream, (), str(alias), span=span_of(node))

    def itself(self, node: ParseNode) -> ast.StreamSource:
        of, alias = node.children
        stream = ast.SameStream(str(of), span=span_of(of))
        return ast.StreamSource(stream, (), str(alias), span=span_of(node))

    def table(self, node: ParseNode) -> ast.StreamSource:
        name, alias = node.children
        stream = ast.FilterStream(str(name), span=span_of(name))
        return ast.StreamSource(stream, (), None if alias is None else str(alias), span=span_of(node))

    def stage(self, node: ParseNode) -> ast.Stage:
        parts = {each.data: each for each in node.children}
        keys = parts["keys"].children if "keys" in parts else ()
        (window,) = (each for each in node.children if each.data in _WINDOWS)
        pinned, aggregates = None, ()
        if "aggregates" in parts:
            pinned, *aggregates = parts["aggregates"].children
        where = self.where(parts["where"]) if "where" in parts else None
        return ast.Stage(
            tuple(map(_name, keys)),
            self.read(window),
            pinned is not None,
            tuple(map(self.read, aggregates)),
            where,
            span=span_of(node),
        )

    def _size(self, token: Token, what: str) -> int:
        value, _ = parse_number(str(token))
        if not isinstance(value, int):
            raise MisplacedSyntax(f"{what} is a whole number, found {token}", span_of(token), "such as last 5")
        if value < 1:
            raise MisplacedSyntax(f"{what} must be at least 1", span_of(token), "without a window nothing is kept")
        if value > _MOST:
            raise MisplacedSyntax(f"{what} is too large", span_of(token), f"at most {_MOST:,}")
        return value

    def sliding(self, node: ParseNode) -> ast.StageWindow:
        return ast.StageWindow("sliding", self._size(node.children[0], "the window size"), span=span_of(node))

    def recent(self, node: ParseNode) -> ast.StageWindow:
        size, unit, at_most = node.children
        most = None if at_most is None else self._size(at_most, "the maximum")
        length = self._size(size, "the window size") * DURATION_UNITS[unit]
        return ast.StageWindow("recent", length, most, span=span_of(node))

    def tumbling(self, node: ParseNode) -> ast.StageWindow:
        return ast.StageWindow("tumbling", self._size(node.children[0], "the window size"), span=span_of(node))

    def random(self, node: ParseNode) -> ast.StageWindow:
        return ast.StageWindow("random", self._size(node.children[0], "the window size"), span=span_of(node))

    def ranked(self, node: ParseNode) -> ast.StageWindow:
        word, size, column, *group = node.children
        names = tuple(map(_name, group[0].children[1:])) if group else ()
        kind: Any = str(word)
        return ast.StageWindow(
            kind, self._size(size, "the window size"), None, _name(column), names, span=span_of(node)
        )

    def aggregate(self, node: ParseNode) -> ast.StageAggregate:
        function, column, entrance, alias = node.children
        return ast.StageAggregate(
            _name(function), _name(column), entrance is not None, _name(alias), span=span_of(node)
        )

    # ------------------------------------------------------------ alert
    def alert(self, node: ParseNode) -> ast.StreamSource:
        columns, *rest = node.children
        sources = tuple(self.read(each) for each in rest if each.data == "correlated")
        patterns = tuple(self.read(each) for each in rest if each.data == "present")
        stream = ast.AlertStream(tuple(map(self.read, columns.children)), sources, patterns, span=span_of(node))
        return ast.StreamSource(stream, span=span_of(node))

    def projection(self, node: ParseNode) -> ast.Projected:
        return ast.Projected(*map(_name, node.children), span=span_of(node))

    def correlated(self, node: ParseNode) -> ast.Correlated:
        name, *stages, alias, column = node.children
        stream = ast.PartitionStream(str(name), tuple(map(self.read, stages)), span=span_of(name))
        source = ast.StreamSource(stream, (), str(alias), span=span_of(alias))
        return ast.Correlated(source, _name(column), span=span_of(node))

    def present(self, node: ParseNode) -> ast.Present:
        members = [each.children for each in node.children]
        wanted = tuple(_name(name) for negated, name in members if negated is None)
        unwanted = tuple(_name(name) for negated, name in members if negated is not None)
        return ast.Present(wanted, unwanted, span=span_of(node))

    # ------------------------------------------------------------ expressions
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
        found = tuple((self.expr(b.children[0]), self.expr(b.children[1])) for b in branches)
        return ast.Case(None, found, None if default is None else self.expr(default), span=span_of(node))

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

DIALECT = Dialect(
    DIALECT_NAME,
    "StreamCruncher's running queries",
    translate,
    declared_names,
    magic="cruncher",
    summary="Run a query of StreamCruncher: a select over partitions of streams.",
    settings={
        "name": "the name of the statement",
        "weights": 'what an event of a stream weighs, such as {"s": 0.25}; events weigh 1, and 1 makes the query run',
        "schedule": '{"policy": "sooner"} (as soon as there is a cause), or {"policy": "fixed", "every_ms": 1000}',
        "timestamp": 'the column with the time of the events of a stream, such as {"s": "at"}; else their arrival',
        "sliding": '"one" (sliding windows take one row in a cycle), or "fill" (at first those that there is room for)',
        "seed": "what the coins of random windows depend on, a whole number",
        "tables": 'reference tables, such as {"prio": {"columns": ["code"], "rows": [["a"]]}}, named windows then',
    },
    tabular=frozenset(("tables",)),
    keywords={row.text.split()[1]: row.doc for row in CYCLE_WINDOWS.values()}
    | {row.name: row.doc for row in CYCLE_AGGREGATES.values()},
    tree=lambda text: show_ast(parse(text)),
)
