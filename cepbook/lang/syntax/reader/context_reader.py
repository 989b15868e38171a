"""Read contexts of EPL: parse tree to syntax tree."""

from __future__ import annotations

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import ParseNode, span_of
from cepbook.lang.syntax.reader.pattern_reader import is_rule
from cepbook.lang.syntax.reader.select_reader import SelectReader


class ContextReader(SelectReader):
    """Reads ``create context``."""

    def create_context(self, node: ParseNode) -> ast.CreateContext:
        name, spec = node.children
        return ast.CreateContext(self.read(name), self.read(spec), span=span_of(node))

    def nested_context(self, node: ParseNode) -> ast.NestedContext:
        parts = tuple((self.read(p.children[0]), self.read(p.children[1])) for p in node.children)
        return ast.NestedContext(parts, span=span_of(node))

    def keyed_context(self, node: ParseNode) -> ast.KeyedContext:
        *items, initiated, terminated = node.children
        return ast.KeyedContext(
            self.reads(items),
            () if initiated is None else self.reads(initiated.children[0].children),
            self.optional(terminated),
            span=span_of(node),
        )

    def keyed_item(self, node: ParseNode) -> ast.KeyedItem:
        *keys, stream, alias = node.children
        return ast.KeyedItem(self.exprs(keys), self.read(stream), self.optional(alias), span=span_of(node))

    hash_item = keyed_item

    def hash_context(self, node: ParseNode) -> ast.HashContext:
        items = self.reads(child for child in node.children if is_rule(child, "hash_item"))
        granularity, preallocate = node.children[len(items) :]
        return ast.HashContext(items, self.expr(granularity), preallocate is not None, span=span_of(node))

    def category_context(self, node: ParseNode) -> ast.CategoryContext:
        *groups, stream = node.children
        named = tuple((self.expr(g.children[0]), self.read(g.children[1])) for g in groups)
        return ast.CategoryContext(named, self.read(stream), span=span_of(node))

    def non_overlapping(self, node: ParseNode) -> ast.NonOverlappingContext:
        start, end = node.children
        return ast.NonOverlappingContext(self.read(start), self.optional(end), span=span_of(node))

    def overlapping(self, node: ParseNode) -> ast.OverlappingContext:
        now, distinct, initiated, terminated = node.children
        begin, end = self.read(initiated), self.optional(terminated)
        keys = () if distinct is None else self.exprs(distinct.children)
        return ast.OverlappingContext(begin, end, keys, now is not None, span=span_of(node))

    def condition_now(self, node: ParseNode) -> ast.ContextCondition:
        return ast.ContextCondition("now", span=span_of(node))

    def condition_filter(self, node: ParseNode) -> ast.ContextCondition:
        stream, alias = node.children
        return ast.ContextCondition("filter", stream=self.read(stream), alias=self.optional(alias), span=span_of(node))

    def condition_pattern(self, node: ParseNode) -> ast.ContextCondition:
        pattern, inclusive, alias = node.children
        return ast.ContextCondition(
            "pattern",
            pattern=self.read(pattern),
            inclusive=inclusive is not None,
            alias=self.optional(alias),
            span=span_of(node),
        )

    def condition_crontab(self, node: ParseNode) -> ast.ContextCondition:
        return ast.ContextCondition("crontab", crontabs=self.reads(node.children), span=span_of(node))

    def condition_after(self, node: ParseNode) -> ast.ContextCondition:
        return ast.ContextCondition("after", period=self.expr(node.children[0]), span=span_of(node))
