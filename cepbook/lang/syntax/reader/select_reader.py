"""Read select statements and their clauses: parse tree to syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import Misplaced, ParseNode, present, span_of, unescape_name
from cepbook.lang.syntax.reader.pattern_reader import PatternReader, is_rule


class SelectReader(PatternReader):
    """Reads select statements, subqueries and the clauses that they share."""

    def select_items(self, node: ParseNode) -> tuple[ast.SelectItem, ...]:
        return self.reads(node.children)

    def item(self, node: ParseNode) -> ast.SelectItem:
        value, *rest = node.children
        alias = next((self.read(child) for child in rest if is_rule(child, "alias")), None)
        return ast.SelectItem(self.expr(value), alias, eventbean=has_eventbean(rest), span=span_of(node))

    def item_star(self, node: ParseNode) -> ast.SelectItem:
        return ast.SelectItem(None, wildcard=True, eventbean=has_eventbean(node.children), span=span_of(node))

    def item_stream(self, node: ParseNode) -> ast.SelectItem:
        *steps, alias = node.children
        first = steps[0].children[0].children[0]
        if first.lower() == "context":
            raise Misplaced("context has no wildcard", span_of(node), "name its properties: context.id, context.key1")
        names = [self.name(step.children[0]) for step in steps if is_rule(step, "step")]
        return ast.SelectItem(
            None, self.optional(alias), ".".join(names), True, has_eventbean(node.children), span=span_of(node)
        )

    def alias(self, node: ParseNode) -> str:
        child = node.children[0]
        return str(child).strip("`") if isinstance(child, Token) else self.name(child)

    def insert_into(self, node: ParseNode) -> ast.InsertInto:
        selector, target, columns, precedence = node.children
        stream, names = None if selector is None else str(selector), self.optional(columns) or ()
        return ast.InsertInto(self.read(target), stream, names, self.optional_expr(precedence), span=span_of(node))

    def column_names(self, node: ParseNode) -> tuple[str, ...]:
        return tuple(".".join(self.name(name_node) for name_node in child.children) for child in present(node.children))

    def event_precedence(self, node: ParseNode) -> ast.Expr:
        return self.expr(node.children[0])

    def select(self, node: ParseNode) -> ast.Select:
        table, into, selector, distinct, items, from_, where, group, having, output, order, limit, delivery = (
            node.children
        )
        sources, joins, recognize = self.from_clause(from_)
        return ast.Select(
            items=self.read(items),
            sources=sources,
            joins=joins,
            selector=None if selector is None else str(selector),
            distinct=distinct is not None,
            insert_into=self.optional(into),
            where=self.optional_expr(where),
            group_by=self.optional(group),
            having=self.optional_expr(having),
            output=self.optional(output),
            order_by=self.optional(order) or (),
            limit=self.optional(limit),
            match_recognize=recognize,
            into_table=None if table is None else self.dotted(table.children[0]),
            delivery=self.optional(delivery),
            span=span_of(node),
        )

    def from_clause(
        self, node: Any
    ) -> tuple[tuple[ast.StreamSource, ...], tuple[ast.Join, ...], ast.MatchRecognize | None]:
        if not node.children:
            return (), (), None
        first, *nexts, recognize = node.children
        sources, joins = [self.source(first)], []
        for following in nexts:
            if following.data == "comma_join":
                sources.append(self.source(following.children[0]))
                joins.append(ast.Join("inner", None, span=span_of(following)))
                continue
            kind, source, on = following.children
            words: Any = "inner" if kind is None else str(kind.children[0])
            sources.append(self.source(source))
            joins.append(ast.Join(words, self.optional_expr(on), span=span_of(following)))
        return tuple(sources), tuple(joins), self.optional(recognize)

    def subselect(self, node: ParseNode) -> ast.Select:
        distinct, items, source, where, group, having = node.children
        return ast.Select(
            self.read(items),
            (self.read(source),),
            distinct=distinct is not None,
            where=self.optional_expr(where),
            group_by=self.optional(group),
            having=self.optional_expr(having),
            span=span_of(node),
        )

    def group_by(self, node: ParseNode) -> ast.GroupBy:
        return ast.GroupBy(self.reads(present(node.children)), span=span_of(node))

    def rollup(self, node: ParseNode) -> ast.Rollup:
        kind: Any = str(node.data)
        items = self.reads(present(node.children))
        return ast.Rollup(kind, items, span=span_of(node))

    cube = rollup

    def grouping_sets(self, node: ParseNode) -> ast.GroupingSets:
        return ast.GroupingSets(self.reads(node.children), span=span_of(node))

    def empty_tuple(self, node: ParseNode) -> ast.Tuple_:
        return ast.Tuple_((), span=span_of(node))

    def order_by(self, node: ParseNode) -> tuple[ast.OrderItem, ...]:
        return self.reads(node.children)

    def order_item(self, node: ParseNode) -> ast.OrderItem:
        value, direction = node.children
        return ast.OrderItem(self.expr(value), direction == "desc", span=span_of(node))

    def delivery(self, node: ParseNode) -> ast.Delivery:
        word, *keys = present(node.children)
        return ast.Delivery(unescape_name(word), self.exprs(keys), span=span_of(node))

    def limit(self, node: ParseNode) -> ast.RowLimit:
        return ast.RowLimit(self.expr(node.children[0]), span=span_of(node))

    def limit_offset(self, node: ParseNode) -> ast.RowLimit:
        first, second = self.exprs(node.children)
        counts = (first, second) if node.data == "limit_offset" else (second, first)
        return ast.RowLimit(*counts, span=span_of(node))

    limit_comma = limit_offset

    def name_expr(self, node: ParseNode) -> ast.Expr:
        return ast.Chain((ast.NameStep(self.read(node.children[0]), span=span_of(node)),), span=span_of(node))

    def output(self, node: ParseNode) -> ast.Output:
        after, which, rate, ending = None, None, None, None
        for child in present(node.children):
            if isinstance(child, Token):
                which = str(child)
            elif child.data == "output_after":
                after = self.expr(child.children[0])
            elif child.data == "and_terminated":
                ending = child
            else:
                rate = child
        fields = {} if rate is None else self.output_rate(rate)
        if ending is not None:
            condition, then = ending.children
            if condition is not None and rate is not None and rate.data.startswith("every"):
                hint = "use output when … and when terminated and …"
                raise Misplaced("output every has no condition after and when terminated", span_of(condition), hint)
            fields |= {
                "and_terminated": True,
                "terminated_when": self.optional_expr(condition),
                "terminated_then": self.optional(then) or (),
            }
        return ast.Output(fields.pop("kind", None), which, after, **fields, span=span_of(node))

    def output_rate(self, node: ParseNode) -> dict[str, Any]:
        """Return the fields of `ast.Output` that one rate sets."""
        first, *rest = node.children
        match str(node.data):
            case "every_events":
                return {"kind": "every-events", "rate": self.expr(first)}
            case "every_time":
                return {"kind": "every-time", "rate": self.expr(first)}
            case "output_at":
                return {"kind": "at", "crontab": self.read(first)}
            case "output_when":
                return {"kind": "when", "when": self.expr(first), "then_set": self.optional(rest[0]) or ()}
        return {"kind": "terminated", "when": self.optional_expr(first), "then_set": self.optional(rest[0]) or ()}

    def then_set(self, node: ParseNode) -> tuple[ast.Assignment, ...]:
        assigned: tuple[ast.Assignment, ...] = self.read(node.children[0])
        return assigned

    def assignments(self, node: ParseNode) -> tuple[ast.Assignment, ...]:
        return self.reads(node.children)

    def assignment(self, node: ParseNode) -> ast.Assignment:
        target, value = node.children
        return ast.Assignment(self.optional_expr(target), self.expr(value), span=span_of(node))


def has_eventbean(children: list[Any]) -> bool:
    """Return whether ``@eventbean`` stands after a select item."""
    annotations = [child for child in children if isinstance(child, Tree) and child.data == "item_annotation"]
    return any(str(a.children[0].children[0].children[0]).lower() == "eventbean" for a in annotations)
