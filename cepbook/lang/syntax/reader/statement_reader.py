"""Build the syntax trees of all statements, around the selects of `select_reader`: parse tree to nodes of
`lang.syntax.ast`.

Each method is named after a rule of the grammar. The children of a rule have fixed positions; None stands for an
omitted part. `start` adds annotations, context, expressions and the span, so rules of whole statements need not set
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lark import Token

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.context_reader import ContextReader
from cepbook.lang.syntax.reader.expression_reader import Misplaced, ParseNode, present, span_of, unescape_name, unquote
from cepbook.lang.syntax.reader.pattern_reader import is_rule

MODULE_DECLARATIONS = {"module_decl": "name", "uses_decl": "uses", "import_decl": "imports"}
SCHEMA_REPRESENTATIONS = ("map", "objectarray", "json", "avro", "bean", "xml", "variant")


class StatementReader(ContextReader):
    """Reads whole statements. A statement becomes a node; ``module``, ``uses`` and ``import`` become (kind, name)."""

    def start(self, node: ParseNode) -> ast.Statement:
        *before, body = node.children
        annotations: list[ast.Annotation] = []
        expressions: list[ast.ExpressionDecl] = []
        context: str | None = None
        for child in before:
            if is_rule(child, "annotation"):
                annotations.append(self.read(child))
            elif is_rule(child, "context_prefix"):
                if context is not None:
                    hint = "combine them in one nested context"
                    raise Misplaced("a statement has one context", span_of(child), hint)
                context = self.read(child.children[0])
            else:
                expressions.append(self.read(child))
        statement: ast.Statement = self.read(body)
        notes, declared = tuple(annotations), tuple(expressions)
        return replace(statement, annotations=notes, context=context, expressions=declared, span=span_of(node))

    def nothing(self, node: ParseNode) -> tuple[str, str]:
        if node.children:
            raise Misplaced("no statement follows the annotation", span_of(node))
        return "", ""

    def module_decl(self, node: ParseNode) -> tuple[str, str]:
        tokens = node.children[0].children
        name = ".".join(unquote(token) if token.type == "STRING" else unescape_name(token) for token in tokens)
        return MODULE_DECLARATIONS[node.data], name

    uses_decl = import_decl = module_decl

    def on_trigger(self, node: ParseNode) -> ast.OnTrigger:
        trigger, action = node.children
        return ast.OnTrigger(self.read(trigger), self.read(action), span=span_of(node))

    def on_set(self, node: ParseNode) -> ast.OnSet:
        return ast.OnSet(self.read(node.children[0]), span=span_of(node))

    def on_delete(self, node: ParseNode) -> ast.OnDelete:
        target, alias, where = node.children
        return ast.OnDelete(self.read(target), self.optional(alias), self.optional_expr(where), span=span_of(node))

    def on_update(self, node: ParseNode) -> ast.OnUpdate:
        target, alias, assignments = map(self.optional, node.children[:3])
        where = self.optional_expr(node.children[3])
        return ast.OnUpdate(target, alias, assignments, where, span=span_of(node))

    def on_select(self, node: ParseNode) -> ast.OnSelect:
        delete, *clauses = node.children
        return ast.OnSelect(self._lookup_select(node, None, clauses), delete is not None, span=span_of(node))

    def _lookup_select(self, node: Any, into: Any, clauses: Sequence[Any]) -> ast.Select:
        selector, distinct, items, from_, where, group, having, output, order, limit = clauses
        return ast.Select(
            self.read(items),
            (self._window_source(from_),),
            selector=_optional_word(selector),
            distinct=distinct is not None,
            insert_into=self.optional(into),
            where=self.optional_expr(where),
            group_by=self.optional(group),
            having=self.optional_expr(having),
            output=self.optional(output),
            order_by=self.optional(order) or (),
            limit=self.optional(limit),
            span=span_of(node),
        )

    def _window_source(self, node: Any) -> ast.StreamSource:
        target, alias = node.children
        stream = ast.FilterStream(self.read(target), span=span_of(target))
        return ast.StreamSource(stream, alias=self.optional(alias), span=span_of(node))

    def on_split(self, node: ParseNode) -> ast.OnAction:
        *branches, output = node.children
        first: Any = branches[0]
        source = first.children[4].children
        if source and is_rule(source[0], "on_from"):
            if len(branches) > 1 or output is not None:
                hint = "each part is insert into … select … where …"
                raise Misplaced("a split stream has no from-clause with a named window", span_of(source[0]), hint)
            return self._on_insert_select(first)
        split = tuple(map(self._split_branch, branches))
        return ast.OnSplit(split, _optional_word(output) == "all", span=span_of(node))

    def _on_insert_select(self, node: Any) -> ast.OnSelect:
        into, selector, distinct, items, from_, where, group, having, order, limit = node.children
        clauses = selector, distinct, items, from_.children[0], where, group, having, None, order, limit
        return ast.OnSelect(self._lookup_select(node, into, clauses), span=span_of(node))

    def _split_branch(
        self, node: Any
    ) -> tuple[ast.InsertInto, tuple[ast.SelectItem, ...], tuple[ast.ContainedStep, ...], str | None, ast.Expr | None]:
        into, selector, distinct, items, from_, where, *others = node.children
        unfit = next((child for child in (selector, distinct, *others) if child is not None), None)
        if unfit is not None:
            raise Misplaced("a branch of a split stream has only a select list and a where clause", span_of(unfit))
        if from_.children and is_rule(from_.children[0], "on_from"):
            raise Misplaced("a split stream has no from-clause with a named window", span_of(from_))
        contained = [self.contained(child) for child in from_.children if is_rule(child, "contained")]
        alias = self.optional(from_.children[-1]) if from_.children else None
        return self.read(into), self.read(items), tuple(contained), alias, self.optional_expr(where)

    def on_merge(self, node: ParseNode) -> ast.OnMerge:
        target, alias = map(self.optional, node.children[:2])
        where, branches = self.optional_expr(node.children[2]), tuple(map(self._branch, node.children[3:]))
        return ast.OnMerge(target, alias, where, branches, span=span_of(node))

    def _branch(self, node: Any) -> ast.MergeBranch:
        if node.data == "merge_insert":
            return ast.MergeBranch(None, None, (self.read(node),), span=span_of(node))
        negated, condition, *actions = node.children
        return ast.MergeBranch(negated is None, self.optional_expr(condition), self.reads(actions), span=span_of(node))

    def merge_insert(self, node: ParseNode) -> ast.MergeAction:
        into, columns, precedence, items = map(self.optional, node.children[:4])
        where = self.optional_expr(node.children[4])
        return ast.MergeAction(
            "insert", into, columns or (), items, where=where, event_precedence=precedence, span=span_of(node)
        )

    def merge_update(self, node: ParseNode) -> ast.MergeAction:
        assignments, where = self.read(node.children[0]), self.optional_expr(node.children[1])
        return ast.MergeAction("update", assignments=assignments, where=where, span=span_of(node))

    def merge_delete(self, node: ParseNode) -> ast.MergeAction:
        return ast.MergeAction("delete", where=self.optional_expr(node.children[0]), span=span_of(node))

    def update_istream(self, node: ParseNode) -> ast.UpdateIStream:
        target, alias, assignments = map(self.optional, node.children[1:4])
        return ast.UpdateIStream(target, alias, assignments, self.optional_expr(node.children[4]))

    def faf_update(self, node: ParseNode) -> ast.FafUpdate:
        target, alias, assignments, where = node.children
        return ast.FafUpdate(self.read(target), self.optional(alias), self.read(assignments), self.optional_expr(where))

    def faf_delete(self, node: ParseNode) -> ast.FafDelete:
        target, alias, where = node.children
        return ast.FafDelete(self.read(target), self.optional(alias), self.optional_expr(where))

    def faf_insert(self, node: ParseNode) -> ast.FafInsert:
        into, *rows = node.children
        target: ast.InsertInto = self.read(into)
        if target.event_precedence is not None:
            raise Misplaced("values takes no event-precedence", target.event_precedence.span, "a query inserts at once")
        values = tuple(self.exprs(row.children) for row in rows)
        return ast.FafInsert(target.target, target.columns, values)

    def create_schema(self, node: ParseNode) -> ast.CreateSchema:
        representation, name, body, *words = node.children
        columns: tuple[ast.ColumnDef, ...] = ()
        alias_of: tuple[str, ...] = ()
        if is_rule(body, "columns"):
            columns = self.reads(present(body.children))
        else:
            types = [child.children[0] for child in body.children]
            alias_of = tuple("*" if isinstance(type_, Token) else self.read(type_) for type_ in types)
        return self._schema(representation, name, columns, alias_of, words)

    def create_schema_bare(self, node: ParseNode) -> ast.CreateSchema:
        representation, name, *words = node.children
        return self._schema(representation, name, (), (), words)

    def _schema(
        self,
        representation: Any,
        name: Any,
        columns: tuple[ast.ColumnDef, ...],
        alias_of: tuple[str, ...],
        words: list[Any],
    ) -> ast.CreateSchema:
        kind = None if representation is None else unescape_name(representation.children[0]).lower()
        if kind is not None and kind not in SCHEMA_REPRESENTATIONS:
            hint = f"one of {', '.join(SCHEMA_REPRESENTATIONS)}"
            raise Misplaced(f"unknown kind of schema {kind}", span_of(representation), hint)
        lists: dict[str, tuple[str, ...]] = {"inherits": (), "copyfrom": (), "starttimestamp": (), "endtimestamp": ()}
        for word in words:
            if word.data.endswith("timestamp") and lists[word.data]:
                raise Misplaced(f"{word.data} may be given only once", span_of(word))
            lists[word.data] += self.reads(word.children)
        return ast.CreateSchema(
            self.read(name),
            columns,
            lists["inherits"],
            lists["copyfrom"],
            kind,
            alias_of,
            lists["starttimestamp"][0] if lists["starttimestamp"] else None,
            lists["endtimestamp"][0] if lists["endtimestamp"] else None,
        )

    def column(self, node: ParseNode) -> ast.ColumnDef:
        name, type_ref, *rest = node.children
        type_name, *inner = type_ref.children
        dimensions = self._dimensions(inner)
        return ast.ColumnDef(
            unescape_name(name),
            self.read(type_name),
            len(dimensions),
            any(isinstance(child, Token) for child in rest),
            self.annotations(rest),
            tuple(self.type_text(child) for child in inner if is_rule(child, "type_ref")),
            primitive=any(bracket.children[0] is not None for bracket in dimensions),
            span=span_of(node),
        )

    def _dimensions(self, nodes: Iterable[Any]) -> list[Any]:
        """Return the brackets of an array type: ``[]`` or ``[primitive]``."""
        brackets = [node for node in nodes if is_rule(node, "dimension")]
        for word in (node.children[0] for node in brackets if node.children[0] is not None):
            text = self.read(word).lower()
            if text != "primitive":
                fact = f"{text} is not allowed in the brackets of an array type"
                raise Misplaced(fact, span_of(word), "write [] or [primitive]")
        return brackets

    def null_column(self, node: ParseNode) -> ast.ColumnDef:
        name, *annotations = node.children
        return ast.ColumnDef(unescape_name(name), "null", annotations=self.annotations(annotations), span=span_of(node))

    def aggregate_column(self, node: ParseNode) -> ast.ColumnDef:
        name, function, call, *annotations = node.children
        args, distinct, wildcard, named = self.arguments(call)
        span = span_of(function).to(span_of(call))
        function_name: str = self.read(function)
        step = ast.NameStep(function_name, args, distinct=distinct, wildcard=wildcard, named=named, span=span)
        return ast.ColumnDef(
            unescape_name(name),
            function_name,
            annotations=self.annotations(annotations),
            aggregate=ast.Chain((step,), span=span),
            span=span_of(node),
        )

    def sketch_column(self, node: ParseNode) -> ast.ColumnDef:
        name, function, *rest = node.children
        options = [child for child in rest if child.data == "named_arg"]
        annotations = [child for child in rest if child.data != "named_arg"]
        function_name: str = self.read(function)
        step = ast.NameStep(function_name, (), named=self.named(options), span=span_of(function))
        chain = ast.Chain((step,), span=step.span)
        read = self.annotations(annotations)
        return ast.ColumnDef(unescape_name(name), function_name, annotations=read, aggregate=chain, span=span_of(node))

    def create_variable(self, node: ParseNode) -> ast.CreateVariable:
        constant, type_ref, name, initial = node.children
        type_name, *inner = type_ref.children
        dimensions = self._dimensions(inner)
        return ast.CreateVariable(
            self.read(name),
            self.read(type_name),
            len(dimensions),
            constant is not None,
            self.optional_expr(initial),
            tuple(self.type_text(child) for child in inner if is_rule(child, "type_ref")),
            any(bracket.children[0] is not None for bracket in dimensions),
        )

    def create_window(self, node: ParseNode) -> ast.CreateWindow:
        name, *windows, retain, body, insert = node.children
        retained: Any = self.optional(retain)
        fields: dict[str, Any] = {}
        if is_rule(body, "window_columns"):
            fields["columns"] = self.reads(body.children)
        else:
            items, type_name = body.children
            fields = {"as_type": self.read(type_name), "select": self.optional(items)}
        if insert is not None:
            fields |= {"insert": True, "insert_where": self.optional_expr(insert.children[0])}
        return ast.CreateWindow(self.read(name), self.reads(windows), retain=retained, **fields)

    def create_window_columns(self, node: ParseNode) -> ast.CreateWindow:
        name, *windows, last, columns, insert = node.children
        read_windows = [self.read(window) for window in windows]
        read_windows.append(ast.Window(self.read(last), (), span=span_of(last)))
        fields = self.reads(columns.children)
        if insert is None:
            return ast.CreateWindow(self.read(name), tuple(read_windows), columns=fields)
        where = self.optional_expr(insert.children[0])
        return ast.CreateWindow(self.read(name), tuple(read_windows), columns=fields, insert=True, insert_where=where)

    def create_table(self, node: ParseNode) -> ast.CreateTable:
        name, *columns = node.children
        return ast.CreateTable(self.read(name), self.reads(columns))

    def create_index(self, node: ParseNode) -> ast.CreateIndex:
        unique, name, target, *columns = node.children
        read = []
        for column in columns:
            value, kind, *parameters = column.children
            key: ast.Expr = self.read(value)
            options = self.exprs(present(parameters))
            how = "hash" if kind is None else unescape_name(kind).lower()
            read.append(ast.IndexColumn(key, how, options, span=span_of(column)))
        return ast.CreateIndex(self.read(name), self.read(target), tuple(read), unique is not None)

    def create_dataflow(self, node: ParseNode) -> ast.CreateDataflow:
        name, body = node.children
        return ast.CreateDataflow(self.read(name), str(body))

    def create_expression(self, node: ParseNode) -> ast.CreateExpression:
        return ast.CreateExpression(self.read(node.children[0]))

    def expression_decl(self, node: ParseNode) -> ast.ExpressionDecl:
        return_type, language, name, *params, body = node.children
        names = self.reads(present(params))
        value = body.children[0]
        decl = ast.ExpressionDecl(
            self.read(name),
            names,
            str(value)[1:-1] if isinstance(value, Token) else self.expr(value),
            None if language is None else unescape_name(language),
            None if return_type is None else self.type_text(return_type),
            is_rule(body, "expression_alias"),
            span=span_of(node),
        )
        if isinstance(decl.body, ast.Lambda) and not names:
            return replace(decl, params=decl.body.params, body=decl.body.body)
        if isinstance(value, Token) and language is None:
            return replace(decl, language="js")
        return decl


def _optional_word(token: Any) -> str | None:
    """Return the text of an optional keyword, or None."""
    return str(token) if isinstance(token, Token) else None
