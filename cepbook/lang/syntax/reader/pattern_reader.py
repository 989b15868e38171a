"""Read patterns, row patterns and streams of EPL: parse tree to syntax tree."""

from __future__ import annotations

from typing import Any

from lark import Token, Tree

from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader.expression_reader import (
    ExpressionReader,
    Misplaced,
    ParseNode,
    present,
    span_of,
    unescape_name,
    unquote,
)
from cepbook.lang.syntax.reader.foreign_syntax import alias_hint


def is_rule(child: Any, kind: str) -> bool:
    """Return whether `child` is a tree of the rule `kind`."""
    return isinstance(child, Tree) and child.data == kind


class PatternReader(ExpressionReader):
    """Reads annotations, streams, windows, patterns and match_recognize."""

    def annotation(self, node: ParseNode) -> ast.Annotation:
        name, *body = present(node.children)
        text = ".".join(unescape_name(token) for token in name.children)
        if body and body[0].data == "annotation_pair":
            pairs = tuple((self.read(pair.children[0]), self.read(pair.children[1])) for pair in body)
            values = tuple((key, annotation_value(value)) for key, value in pairs)
            return ast.Annotation(text, None, values, span=span_of(node))
        value = annotation_value(self.read(body[0])) if body else None
        return ast.Annotation(text, value, span=span_of(node))

    def annotations(self, nodes: Any) -> tuple[ast.Annotation, ...]:
        return tuple(self.annotation(node) for node in nodes if is_rule(node, "annotation"))

    def annotation_word(self, node: ParseNode) -> str:
        return ".".join(unescape_name(token) for token in node.children)

    def annotation_array(self, node: ParseNode) -> tuple[object, ...]:
        return tuple(annotation_value(self.read(child)) for child in present(node.children))

    def signed(self, node: ParseNode) -> ast.Literal:
        return self.negative(node)

    def filter_stream(self, node: ParseNode) -> ast.FilterStream:
        type_name, filters, *contained = node.children
        return ast.FilterStream(
            self.read(type_name),
            () if filters is None else self.exprs(filters.children),
            tuple(self.contained(child) for child in contained),
            span=span_of(node),
        )

    def contained(self, node: ParseNode) -> ast.ContainedStep:
        items, path, type_name, alias, where = node.children
        names = self.optional(alias), self.optional_expr(where), self.optional(type_name)
        return ast.ContainedStep(self.expr(path), self.optional(items), *names, span=span_of(node))

    def contained_type(self, node: ParseNode) -> str:
        return self.dotted(node.children[1])

    def pattern_stream(self, node: ParseNode) -> ast.PatternStream:
        *annotations, pattern = node.children
        return ast.PatternStream(self.read(pattern), self.annotations(annotations), span=span_of(node))

    def sql_stream(self, node: ParseNode) -> ast.ExternalStream:
        name, text, metadata = node.children
        return ast.ExternalStream(
            "sql",
            self.read(name),
            (),
            unquote(str(text)),
            None if metadata is None else unquote(str(metadata)),
            span=span_of(node),
        )

    def method_stream(self, node: ParseNode) -> ast.ExternalStream:
        *steps, _, event_type = node.children
        read: list[ast.NameStep] = []
        for step in steps:
            self.add_steps(step, read)
        name = ".".join(step.name for step in read)
        metadata = self.optional(event_type)
        return ast.ExternalStream("method", name, read[-1].args or (), None, metadata, span=span_of(node))

    def stream_alias(self, node: ParseNode) -> str:
        return unescape_name(node.children[0])

    def window(self, node: ParseNode) -> ast.Window:
        name, params = node.children
        args, named = self.params(params)
        return ast.Window(self.read(name), args, None, named, span=span_of(node))

    def window_in_namespace(self, node: ParseNode) -> ast.Window:
        namespace, name, params = node.children
        space = unescape_name(namespace) if isinstance(namespace, Token) else self.read(namespace)
        args, named = self.params(params)
        return ast.Window(self.read(name), args, space, named, span=span_of(node))

    def retain(self, node: ParseNode) -> str:
        return str(node.children[0])

    def source(self, node: ParseNode) -> ast.StreamSource:
        stream, *rest = node.children
        windows: list[ast.Window] = []
        alias: str | None = None
        unidirectional, retain = False, None
        for child in rest:
            if not is_rule(child, "source_word"):
                windows.append(self.read(child))
                continue
            word: Any = child.children[0]
            if isinstance(word, Token):
                if unidirectional:
                    raise Misplaced("the stream is unidirectional already", span_of(word), "say it once")
                unidirectional = True
            elif word.data == "retain":
                if retain is not None:
                    raise Misplaced(f"the stream has retain-{retain} already", span_of(word), "keep one of them")
                retain = self.retain(word)
            elif alias is not None:
                second = self.read(word)
                raise Misplaced(f"the stream already has the alias {alias}", span_of(word), alias_hint(alias, second))
            else:
                alias = self.read(word)
        retained: Any = retain
        return ast.StreamSource(self.read(stream), tuple(windows), alias, unidirectional, retained, span=span_of(node))

    subsource = source

    def followed_by(self, node: ParseNode) -> ast.PatternNode:
        first, *nexts = node.children
        operands: list[ast.PatternNode] = [self.read(first)]
        maxima: list[ast.Expr | None] = []
        for following in nexts:
            *maximum, operand = following.children
            maxima.append(self.expr(maximum[0]) if maximum else None)
            operands.append(self.read(operand))
        return ast.PatternFollowedBy(tuple(operands), tuple(maxima), span=span_of(node))

    def pattern_or(self, node: ParseNode) -> ast.PatternNode:
        operator: Any = "or" if node.data == "pattern_or" else "and"
        return ast.PatternLogical(operator, self.reads(node.children), span=span_of(node))

    pattern_and = pattern_or

    def pattern_until(self, node: ParseNode) -> ast.PatternNode:
        operand, until = node.children
        return ast.PatternRepeat(self.read(operand), None, None, self.read(until), span=span_of(node))

    def pattern_repeat(self, node: ParseNode) -> ast.PatternNode:
        bounds, operand, *until = node.children
        return self.repeated(bounds, self.read(operand), self.read(until[0]) if until else None, node)

    def repeated(
        self, bounds: Any, operand: ast.PatternNode, until: ast.PatternNode | None, node: ParseNode
    ) -> ast.PatternNode:
        if bounds.data == "repeat_exact":
            low = self.expr(bounds.children[0])
            return ast.PatternRepeat(operand, low, low, until, True, span=span_of(node))
        lowest, highest = (self.optional_expr(bound) for bound in bounds.children)
        return ast.PatternRepeat(operand, lowest, highest, until, span=span_of(node))

    def _operand(self, children: list[Any], node: ParseNode) -> ast.PatternNode:
        *bounds, operand = children
        read: ast.PatternNode = self.read(operand)
        return self.repeated(bounds[0], read, None, node) if bounds else read

    def pattern_every(self, node: ParseNode) -> ast.PatternNode:
        return ast.PatternEvery(self._operand(node.children, node), span=span_of(node))

    def pattern_not(self, node: ParseNode) -> ast.PatternNode:
        return ast.PatternNot(self._operand(node.children, node), span=span_of(node))

    def pattern_every_distinct(self, node: ParseNode) -> ast.PatternNode:
        keys, *operand = node.children
        distinct = self.exprs(keys.children)
        return ast.PatternEvery(self._operand(operand, node), distinct, span=span_of(node))

    def guard_where(self, node: ParseNode) -> ast.PatternNode:
        operand, namespace, name, params = node.children
        args, _ = self.params(params)
        return ast.PatternGuard(self.read(operand), self.read(namespace), self.read(name), args, span=span_of(node))

    def guard_while(self, node: ParseNode) -> ast.PatternNode:
        operand, condition = node.children
        return ast.PatternGuard(self.read(operand), "", "while", (self.expr(condition),), span=span_of(node))

    def pattern_filter(self, node: ParseNode) -> ast.PatternNode:
        tag, stream, *annotations = node.children
        return ast.PatternFilter(
            None if tag is None else unescape_name(tag.children[0]),
            self.read(stream),
            self.annotations(annotations),
            span=span_of(node),
        )

    def pattern_observer(self, node: ParseNode) -> ast.PatternNode:
        namespace, name_node, params = node.children
        name: str = self.read(name_node)
        if name.lower() == "at":
            return ast.PatternObserver(unescape_name(namespace), name, self.cron_fields(params), span=span_of(node))
        args, named = self.params(params)
        return ast.PatternObserver(unescape_name(namespace), name, args, named, span=span_of(node))

    def match_recognize(self, node: ParseNode) -> ast.MatchRecognize:
        partition, measures, all_matches, skip, pattern, interval, define = node.children
        terminated = interval is not None and interval.children[1] is not None
        return ast.MatchRecognize(
            () if partition is None else self.exprs(partition.children),
            tuple(self.measure(child) for child in measures.children),
            all_matches is not None,
            None if skip is None else SKIP_CLAUSES[str(skip.children[0])],
            self.read(pattern.children[0]),
            None if interval is None else self.expr(interval.children[0]),
            terminated,
            ()
            if define is None
            else tuple((unescape_name(child.children[0]), self.expr(child.children[1])) for child in define.children),
            span=span_of(node),
        )

    def measure(self, node: ParseNode) -> ast.SelectItem:
        value, alias = node.children
        return ast.SelectItem(self.expr(value), self.read(alias), span=span_of(node))

    def row_sequence(self, node: ParseNode) -> ast.RowPattern:
        kind: Any = ROW_PATTERN_KINDS[node.data]
        return ast.RowPattern(kind, None, self.reads(node.children), span=span_of(node))

    row_alternation = row_permute = row_sequence

    def row_element(self, node: ParseNode) -> ast.RowPattern:
        atom, quantifier = node.children
        kind, name = "group", None
        operands: tuple[ast.RowPattern, ...] = ()
        if isinstance(atom, Token):
            kind, name = "atom", unescape_name(atom)
        else:
            inner = self.read(atom)
            kind, operands = ("permute", inner.operands) if is_rule(atom, "row_permute") else ("group", (inner,))
        if quantifier is None:
            return ast.RowPattern(kind, name, operands, span=span_of(node))
        low = high = None
        text = "".join(str(child) for child in quantifier.children if isinstance(child, Token))
        if is_rule(quantifier, "row_exactly"):
            text, low = "{n}" + text, self.expr(quantifier.children[0])
            high = low
        elif is_rule(quantifier, "row_between"):
            text = "{n,m}" + text
            low, high = (self.optional_expr(b) for b in quantifier.children[:2])
        return ast.RowPattern(kind, name, operands, text, low, high, span=span_of(node))


ROW_PATTERN_KINDS = {"row_sequence": "seq", "row_alternation": "alt", "row_permute": "permute"}
SKIP_CLAUSES = {"last": "past last row", "next": "to next row", "current": "to current row"}


def annotation_value(value: object) -> object:
    """Return the Python value of an annotation's value."""
    return value.value if isinstance(value, ast.Literal) else value
