"""``match_recognize``: the row pattern, the conditions of its variables, and measures.

A condition reads the tested row (by the name of its own variable, or without a name), rows before it in the partition
(``prev``) and the rows of variables that stand earlier in the pattern. A variable that may match several rows is the
array of them. Source: Esper reference, chapter "EPL Reference: Match Recognize".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cepbook.errors import Span, nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import ITERATE_ONLY, has_hint
from cepbook.lang.bind.coercion import coerce
from cepbook.lang.bind.expressions.expression import bind_condition, bind_expr
from cepbook.lang.bind.expressions.time_period import bind_duration
from cepbook.lang.bind.scope import (
    ERROR,
    AlreadyReported,
    Binder,
    RowPatternCalls,
    Scope,
    ScopeStream,
    error_expression,
    type_text,
)
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import row_pattern as r
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.nodes import OutputColumn
from cepbook.lang.plan.relational import CURRENT_ROW, MATCHED_ROWS, RowSkip
from cepbook.lang.registry.aggregates import AggregateRow
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.types import Type

ROW_MATCH_TYPE = "<match_recognize>"  # the type of the events that matches make
_NO_ROW = ScopeStream(None, EventType("", {}))
_EMPTY = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_SKIPS: dict[str | None, RowSkip] = {
    None: "past last row",
    "past last row": "past last row",
    "to next row": "to next row",
    "to current row": "to current row",
}


def bind_match_recognize(
    node: ast.MatchRecognize, select: ast.Select, rows: nodes.FromNode | None, where: x.BoundExpr | None, scope: Scope
) -> nodes.Recognition | None:
    """Bind the matches in `rows` and make `scope` see them. Return None if the clause was reported."""
    source = _source(node, select, rows, scope)
    event_type = scope.streams[0].event_type if scope.streams else None
    recognition: nodes.Recognition | None = None
    if source is not None and event_type is not None and not scope.unchecked:
        own = replace(scope, data_windows=(), unwindowed=False)
        recognition = _Binder(own, event_type).bind(node, source, where)
        if recognition is not None and has_hint(select.annotations, ITERATE_ONLY):
            recognition = replace(recognition, iterate_only=True)
    match_type = None if recognition is None else recognition.event_type
    scope.streams = (ScopeStream(None, match_type),)
    scope.unchecked, scope.unwindowed, scope.data_windows = match_type is None, True, ()
    return recognition


def _source(
    node: ast.MatchRecognize, select: ast.Select, rows: nodes.FromNode | None, scope: Scope
) -> nodes.Windowed | nodes.Derivation | nodes.SourceNode | None:
    if len(select.sources) != 1:
        scope.wrong("match_recognize reads one stream", node.span, "insert the join into a stream")
        return None
    stream = select.sources[0].stream
    if isinstance(stream, ast.PatternStream):
        hint = "insert the matches of the pattern into a stream"
        scope.wrong("match_recognize reads a stream of events, not a pattern", stream.span, hint)
        return None
    if rows is None:
        return None
    read = next((node_below for node_below in nodes.chain(rows) if isinstance(node_below, nodes.SourceNode)), None)
    if read is None or read.without_from:
        return None
    if read.store is not None and read.store.kind == "table":
        hint = "read a named window"
        scope.wrong("a table has no order of rows for match_recognize", stream.span, hint)
        return None
    assert isinstance(rows, (nodes.Windowed, nodes.Derivation, nodes.SourceNode))
    return rows


@dataclass(slots=True)
class _Binder:
    """Binds one ``match_recognize``.

    `scope` is that of the statement and `row` the type of the rows. `names` are the variables in the order of the
    pattern, `many` those that may match several rows.
    """

    scope: Scope
    row: EventType
    names: list[str] = field(default_factory=list)
    many: set[str] = field(default_factory=set)

    def bind(
        self,
        node: ast.MatchRecognize,
        source: nodes.Windowed | nodes.Derivation | nodes.SourceNode,
        where: x.BoundExpr | None,
    ) -> nodes.Recognition | None:
        pattern = self.pattern(node.pattern)
        if pattern is None or not self.fits(pattern, node.pattern.span):
            return None
        self.many = {self.names[number] for number, rows in r.most_rows(pattern).items() if rows > 1}
        for other_row in (*x.find(x.Prior, where), *x.find(x.Prev, where)) if where is not None else ():
            fact = "the where-clause of match_recognize reads the row alone"
            self.wrong(fact, other_row.span, "rows before it are for define: prev(A.price)")
        keys = tuple(self.key(key) for key in node.partition_by)
        conditions = self.conditions(node.define)
        measures = self.measures(node.measures)
        interval = None
        if node.interval is not None:
            interval = bind_duration(bind_expr(node.interval, self.outside("the interval")), "the interval", self.scope)
            self.check_constant(interval)
        variables = tuple(nodes.RowDefinition(name, name in self.many, conditions.get(name)) for name in self.names)
        return nodes.Recognition(
            input=source,
            predicate=where,
            keys=keys,
            variables=variables,
            pattern=pattern,
            measures=tuple(measures.values()),
            skip=_SKIPS[node.after],
            all_matches=node.all_matches,
            interval=interval,
            or_terminated=node.or_terminated,
            iterate_only=False,
            event_type=EventType(ROW_MATCH_TYPE, {name: column.value.type for name, column in measures.items()}),
            span=node.span,
        )

    def wrong(self, fact: str, span: Span, hint: str | None = None) -> None:
        self.scope.wrong(fact, span, hint)

    def outside(self, what: str) -> Scope:
        return replace(self.scope.without_aggregates(what), streams=(), no_row_functions=what)

    def check_constant(self, e: x.BoundExpr) -> None:
        for subexpr in x.walk(e):
            if isinstance(subexpr, (x.Prop, x.EventOf)):
                self.wrong("the interval does not depend on rows", subexpr.span)

    def pattern(self, node: ast.RowPattern) -> r.RowRegex | None:
        """Return the tree, or None if it was reported."""
        bounds = self.bounds(node)
        if bounds is None:
            return None
        low, high = bounds
        tree = self.plain(node)
        if tree is None or node.quantifier is None:
            return tree
        reluctant = node.quantifier != "?" and node.quantifier.endswith("?")
        if reluctant and high is None and low and node.low is not None:  # `+?` goes on, too; `{1,}?` does not
            least = r.RowRepeat(tree, low, low, span=node.span)
            return r.RowSequence((least, r.RowRepeat(tree, 0, None, True, span=node.span)), span=node.span)
        return r.RowRepeat(tree, low, high, reluctant, span=node.span)

    def plain(self, node: ast.RowPattern) -> r.RowRegex | None:
        if node.kind == "atom":
            assert node.name is not None
            return r.RowVariable(self.variable(node.name), span=node.span)
        below = []
        for operand in node.operands:
            if node.kind == "permute":  # recorded: mrq_permute_with_quantified_member
                operand = _unquantified(operand)
            below.append(self.pattern(operand))
        parts = tuple(tree for tree in below if tree is not None)
        if len(parts) < len(below):
            return None
        if node.kind == "group":
            return parts[0]
        kinds = {"seq": r.RowSequence, "alt": r.RowAlternation, "permute": r.RowPermutation}
        return kinds[node.kind](parts, span=node.span)

    def variable(self, name: str) -> int:
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def bounds(self, node: ast.RowPattern) -> tuple[int, int | None] | None:
        if node.quantifier is None:
            return 1, 1
        if not node.quantifier.startswith("{"):
            return _EMPTY[node.quantifier[0]]
        if node.low is None and node.high is None:
            self.wrong("a quantifier without bounds", node.span, "write * for any number")
            return None
        low = None if node.low is None else self.count(node.low)
        high = None if node.high is None else self.count(node.high)
        if (low is None) != (node.low is None) or (high is None) != (node.high is None):
            return None
        if node.quantifier.startswith("{n}"):
            return low or 1, low
        if low is not None and high is not None and low > high:
            self.wrong(f"the bounds of a quantifier run backwards: {low} to {high}", node.span)
            return None
        return low or 0, high

    def count(self, node: ast.Expr) -> int | None:
        bound = fold_expr(bind_expr(node, self.outside("a quantifier")))
        if bound.type == ERROR:
            return None
        if not isinstance(bound, x.Const) or not isinstance(bound.value, int) or isinstance(bound.value, bool):
            text = type_text(bound.type) if isinstance(bound, x.Const) else "an expression"
            self.wrong(f"the bounds of a quantifier are whole numbers, found {text}", node.span)
            return None
        if bound.value < 1:
            hint = "write {,m} for none to m rows" if bound.value == 0 else None
            self.wrong(f"the bounds of a quantifier are above 0, found {bound.value}", node.span, hint)
            return None
        return bound.value

    def fits(self, pattern: r.RowRegex, span: Span) -> bool:
        """Return whether the automaton is small enough to run; report it if not."""
        try:
            automaton = r.compile_automaton(pattern)
        except r.RowPatternTooLarge:
            limit = f"{r.MAX_POSITIONS:,} positions, or transitions between them"
            fact = f"the pattern is too large: it has more than {limit}"
            self.scope.report("pattern-too-large", fact, span, "make repetitions and permutations smaller")
            return False
        if not automaton.start:
            self.wrong("the pattern matches no row", span)
            return False
        return True

    def key(self, node: ast.Expr) -> x.BoundExpr:
        inside = replace(self.scope.without_aggregates("partition by"), no_row_functions="partition by")
        return fold_expr(bind_expr(node, inside))

    def event(self) -> Type:
        if self.row.name in self.scope.module.catalog.event_types:
            return t.event_of(self.row.name)
        return t.struct_of(tuple(self.row.properties.items()))

    def matched(self, names: Sequence[str]) -> dict[str, Type]:
        event = self.event()
        return {name: t.array_of(event) if name in self.many else event for name in names}

    def conditions(self, node: Sequence[tuple[str, ast.Expr]]) -> dict[str, x.BoundExpr]:
        conditions: dict[str, x.BoundExpr] = {}
        for name, condition in node:
            at = condition.span
            if name not in self.names:
                hint = nearest_or_known_names(name, self.names)
                self.scope.report("unknown-property", f"no variable `{name}` in the pattern", at, hint)
            elif name in conditions:
                self.scope.report("duplicate-name", f"variable `{name}` is defined twice", at)
            else:
                conditions[name] = self.condition(name, condition)
        return conditions

    def condition(self, name: str, node: ast.Expr) -> x.BoundExpr:
        place = self.names.index(name)
        tags, later = self.matched(self.names[:place]), set(self.names[place + 1 :])
        if name in self.many:
            tags[_all_rows_name(name)] = self.matched([name])[name]
            node = _read_all_rows(node, name)
        later -= set(self.row.properties)
        for chain in walk(node):
            if isinstance(chain, ast.Chain) and chain.steps[0].name in later and chain.steps[0].args is None:
                first = chain.steps[0]
                hint = "a condition sees the rows of variables that come before its own in the pattern"
                fact = f"variable `{first.name}` is not known here"
                self.scope.report("unknown-property", fact, first.span, hint)
        what = f"the condition of `{name}`"
        streams = (ScopeStream(name, self.row), ScopeStream(None, EventType(ROW_MATCH_TYPE, tags), fallback=True))
        correlated = {**self.scope.correlated, **dict.fromkeys(later, error_expression())}
        inside = replace(self.scope.without_aggregates("define"), streams=streams, correlated=correlated)
        return bind_condition(node, replace(inside, rows=_Defining(name)), what)

    def measures(self, node: Sequence[ast.SelectItem]) -> dict[str, OutputColumn]:
        """Return the measures by name; the last one of a name counts (recorded: mrm_duplicate_measure_name)."""
        streams = (_NO_ROW, ScopeStream(None, EventType(ROW_MATCH_TYPE, self.matched(self.names)), fallback=True))
        inside = replace(self.scope.without_aggregates("measures"), streams=streams)
        inside.rows = _Measuring(self.row, frozenset(self.names), frozenset(self.many))
        columns: dict[str, OutputColumn] = {}
        for item in node:
            assert item.expr is not None and item.alias is not None
            columns[item.alias] = OutputColumn(item.alias, bind_expr(item.expr, inside), span=item.span)
        return columns


def _unquantified(node: ast.RowPattern) -> ast.RowPattern:
    if node.kind == "seq" and len(node.operands) == 1:
        return _unquantified(node.operands[0])
    return replace(node, quantifier=None, low=None, high=None)


def _all_rows_name(name: str) -> str:
    """Return the name of all rows of the variable whose condition is bound; its plain name means the tested row."""
    return f"{name}[]"


def _read_all_rows(node: ast.Expr, name: str) -> ast.Expr:

    def changed(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(changed(item) for item in value)
        if isinstance(value, ast.Chain):
            first, *rest = value.steps
            of_rows = first.index is not None or (rest and rest[0].args is not None)
            if first.name == name and first.args is None and of_rows:
                value = replace(value, steps=(replace(first, name=_all_rows_name(name)), *rest))
        if isinstance(value, ast.SyntaxNode):
            fields = {key: getattr(value, key) for key in value.__dataclass_fields__ if key != "span"}
            after = {key: changed(inner) for key, inner in fields.items()}
            if any(after[key] is not fields[key] and after[key] != fields[key] for key in fields):
                return type(value)(**after, span=value.span)
        return value

    replaced = changed(node)
    assert isinstance(replaced, ast.Expr)
    return replaced


@dataclass(frozen=True, slots=True)
class _Defining(RowPatternCalls):
    """Calls in the condition of variable `name`."""

    name: str

    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        """Bind ``prev(A.price)`` or ``prev(A.price, 2)``: a row of the partition before the tested row."""
        if name != "prev":
            scope.reject(f"`{name}` is not allowed in define", step.span, "use prev")
        args = step.args or ()
        if not 1 <= len(args) <= 2 or step.wildcard:
            fact = f"`prev` takes a property and a number of rows, found {len(args)}"
            scope.reject(fact, step.span, f"such as prev({self.name}.price, 2)")
        value = bind(args[0], replace(scope, rows=_Within("prev")))
        index: x.BoundExpr = x.Const(t.INT, 1, span=step.span)
        if len(args) == 2:
            index = fold_expr(bind(args[1], replace(scope, streams=(), rows=None, no_row_functions="`prev`")))
        if ERROR in (value.type, index.type):
            return error_expression(step.span)
        back = index.value if isinstance(index, x.Const) and t.is_integral(index.type) else None
        if not isinstance(back, int) or back < 0:
            scope.reject("the second parameter of `prev` must be a constant whole number, 0 or above", args[1].span)
        read = [subexpr for subexpr in x.walk(value) if isinstance(subexpr, (x.Prop, x.EventOf))]
        if not read or any(subexpr.stream != CURRENT_ROW for subexpr in read):
            hint = f"name the variable that is defined: prev({self.name}.…)"
            scope.reject("`prev` looks back from the row that is tested", step.span, hint)
        return x.Prior(value.type, back, value, span=step.span)

    def folded(self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        hint = "use methods of the rows so far, such as A.sumOf(r => r.price)"
        scope.fail("aggregate-not-allowed", f"aggregate `{row.name}` in define", step.span, hint)


@dataclass(frozen=True, slots=True)
class _Within(RowPatternCalls):
    """Calls where no call is allowed: inside of `what`."""

    what: str

    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        scope.reject(f"`{name}` inside of `{self.what}`", step.span)

    def folded(self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        scope.fail("aggregate-not-allowed", f"aggregate `{row.name}` inside of `{self.what}`", step.span)


@dataclass(frozen=True, slots=True)
class _Measuring(RowPatternCalls):
    """Calls in measures: aggregates over the rows of a variable."""

    row: EventType
    names: frozenset[str]
    many: frozenset[str]

    def previous(self, name: str, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        hint = "prev is for the conditions of define" if name == "prev" else None
        scope.reject(f"`{name}` is not allowed in measures", step.span, hint)

    def folded(self, row: AggregateRow, step: ast.NameStep, scope: Scope, bind: Binder) -> x.BoundExpr:
        name = row.name
        beyond = row.ever or row.remembers or row.second in ("index", "percent", "separator")  # not of the rows alone
        if row.sorts or beyond:
            scope.reject(f"aggregate `{name}` cannot be used for the rows of a match", step.span)
        args = step.args or ()
        if step.wildcard or not args or any(isinstance(arg, (ast.Star, ast.SortKey)) for arg in args):
            hint = "count a property of its rows, such as count(A.id)"
            fact = f"`{name}` must name the variable whose rows it aggregates"
            scope.reject(fact, step.span, hint)
        variable = self._variable(name, args, step, scope)
        tags = scope.streams[MATCHED_ROWS].event_type
        assert tags is not None
        others = {tag: type_ for tag, type_ in tags.properties.items() if tag != variable}
        streams = (ScopeStream(variable, self.row), ScopeStream(None, EventType(ROW_MATCH_TYPE, others), fallback=True))
        inside = replace(scope, streams=streams, rows=_Within(name))
        value, *rest = (bind(arg, inside) for arg in args)
        filters = [e for e in rest if e.type == t.BOOLEAN]
        for key, values in step.named:
            if key == "filter" and len(values) == 1:
                filters.append(bind_condition(values[0], inside, f"the filter of `{name}`"))
            else:
                scope.reject(f"`{name}` takes no `{key}:` in measures", step.span)
        # an index is ignored (recorded: first(B.n, 1) is first(B.n))
        index = [e for e in rest if t.is_integral(e.type)] if row.second in ("index", "index?") else []
        if any(e.type == ERROR for e in (value, *rest)):
            return error_expression(step.span)
        if len(filters) + len(index) < len(rest) or len(filters) > 1:
            scope.reject(f"too many parameters for `{name}`", step.span)
        if row.values == "numbers" and not t.is_numeric(value.type):
            scope.mismatch(f"`{name}` needs numbers, found {type_text(value.type)}", value.span)
        if row.values == "ordered" and not t.is_ordered(value.type):
            scope.mismatch(f"`{name}` cannot order values of {type_text(value.type)}", value.span)
        rows = x.Prop(tags.properties[variable], MATCHED_ROWS, variable, span=step.span)
        type_ = row.result(value.type)
        value = coerce(value, t.DOUBLE) if row.computes else value
        chosen = filters[0] if filters else None
        return x.MeasureAggregate(type_, row.plain or name, rows, value, chosen, step.distinct, span=step.span)

    def _variable(self, name: str, args: Sequence[ast.Expr], step: ast.NameStep, scope: Scope) -> str:
        read = [chain.steps[0].name for chain in walk(tuple(args)) if isinstance(chain, ast.Chain) and chain.steps]
        variables = dict.fromkeys(chain for chain in read if chain in self.many)
        if len(variables) == 1:
            return next(iter(variables))
        if variables:
            names = " and ".join(f"`{chain}`" for chain in variables)
            scope.reject(f"`{name}` aggregates rows of several variables: {names}", step.span)
        single = next((chain for chain in read if chain in self.names), None)
        if single is not None:
            fact = f"`{single}` matches one row, so `{name}` has nothing to aggregate"
            scope.reject(fact, step.span, "write its property alone")
        known = len(scope.problems.reported)
        for arg in args:
            bind_expr(arg, replace(scope, rows=_Within(name)))  # reports unknown names
        if len(scope.problems.reported) == known:
            scope.wrong(f"`{name}` names no variable whose rows it could aggregate", step.span)
        raise AlreadyReported(name)
