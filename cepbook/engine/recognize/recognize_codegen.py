"""Code generation for `match_recognize`: the functions of conditions and measures, and the program that calls them.

Generated code uses these names: `m` holds the rows of a match by variable, `e` is the tested row, `h` are the rows
before it, `S` is the statement's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.code_scope import RowCode
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.recognize.recognition_forms import recognition_form
from cepbook.engine.recognize.recognize_program import GuardedTransition, RecognizeProgram, Transition
from cepbook.engine.recognize.row_aggregates import last_run_row, row_aggregate, run_length, run_row_at, run_rows
from cepbook.engine.time.calendar_periods import period_after
from cepbook.engine.vectorized.recognition_form import RecognitionForm
from cepbook.engine.vectorized.row_automaton import RowAutomaton
from cepbook.lang.explain.recognize import show_row_variable
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.relational import CURRENT_ROW, MATCHED_ROWS
from cepbook.lang.plan.row_pattern import END_OF_MATCH, compile_automaton
from cepbook.lang.plan.traversal import rebuild_expr

RECOGNIZE_PROGRAM = "recognize_form"
_ROWS: dict[str, Literal["first", "last", "number"]] = {
    "array.firstOf": "first",
    "array.lastOf": "last",
    "array.countOf": "number",
}


class RecognizeCodegen:
    """Writes the functions of one `match_recognize`. `scope` is that of the statement. If it `enters_rows`, one of the
    functions takes a row that arrives.

    `reads` has, by variable, the variables whose matched rows its condition reads. `ahead` has, by position, the
    variables whose rows the conditions of all later positions read: on these the future of a match there depends.
    """

    enters_rows = False

    def __init__(self, node: p.Recognition, scope: CodeScope, *, leaves: bool) -> None:
        self.node = node
        self.source: SourceWriter = scope.source
        self.leaves = leaves
        self.automaton = compile_automaton(node.pattern)
        self._base = scope.at(
            now="now", row=RowCode(prior=self._prior, measure_aggregate=self._folded, matched_row=self._one)
        )
        names = [variable.name for variable in node.variables]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._rows = self.source.bind("_rows_of", run_rows)
        self._depth = 0
        self.conditions = [v.condition and rebuild_expr(v.condition, _direct) for v in node.variables]
        self.reads = tuple(self._reads(v.condition) for v in node.variables)
        self.ahead = self._ahead()
        prior = [e.index for v in node.variables if v.condition is not None for e in x.find(x.Prior, v.condition)]
        self.back = max(prior, default=0)

    def write(self) -> None:
        """Write all functions."""
        node = self.node
        if node.predicate is not None:
            self._function("admits", "e, S, now", [node.predicate], partial(self._truth, node.predicate))
        if node.keys:
            self._function("partition", "e, S, now", node.keys, self._key)
        for number, e in enumerate(self.conditions):
            if e is not None:
                self._function(f"defined{number}", "e, h, m, S, now", [e], partial(self._truth, e))
        self._measures()
        if node.interval is not None:
            self._due(node.interval)
        with self.source.block("def too_many(most):"):
            text = self.source.const(
                "more than {:,} matches are open at once: those of this partition are given up "
                "(Config.recognize_limit; a narrower define, an interval or a window keeps them few)"
            )
            self.source.line(f"raise OverflowError({text}.format(most))", node.span)

    def form(self, namespace: Mapping[str, Any]) -> RecognizeProgram:
        """Return the program that running states share."""
        node = self.node
        transitions = self._transitions(namespace)
        earliest = node.skip == "past last row" and not node.all_matches
        forks = self.automaton.forks if node.or_terminated else ((),) * len(self.automaton.follow)
        return RecognizeProgram(
            transitions=transitions,
            alike=tuple(all(guarded.of_row for guarded in of_position) for of_position in transitions),
            forks=(*forks, ()),
            earliest=earliest,
            bounded=earliest and node.interval is None and not self.leaves,
            settles=earliest and not self.leaves and not any(forks),
            names=tuple(v.name for v in node.variables),
            many=tuple(v.many for v in node.variables),
            runs=any(v.many for v in node.variables),
            variables=self.automaton.variables,
            back=self.back,
            admits=namespace.get("admits"),
            key=namespace.get("partition"),
            measures=namespace["measures"],
            due=namespace.get("interval"),
            too_many=namespace["too_many"],
            skip=node.skip,
            all_matches=node.all_matches,
            or_terminated=node.or_terminated,
            leaves=self.leaves,
            iterate_only=node.iterate_only,
            waiting=tuple(show_row_variable(v) for v in node.variables),
            namespace=namespace,
            automaton=RowAutomaton(
                [[(guarded.move.target, guarded.move.ends) for guarded in moves] for moves in transitions],
                self.automaton.variables,
                len(node.variables),
            ),
            arrays=cache(self._form_for_arrays),
        )

    def _form_for_arrays(self) -> RecognitionForm | str:
        null_at_zero = self._base.division_by_zero_null
        return recognition_form(self.node, self.back, enters_rows=self.enters_rows, null_at_zero=null_at_zero)

    def _transitions(self, namespace: Mapping[str, Any]) -> tuple[tuple[GuardedTransition, ...], ...]:
        variables, follow = self.automaton.variables, self.automaton.follow
        by_target: list[GuardedTransition] = []
        for target, number in enumerate(variables):
            variable, behind = self.node.variables[number], follow[target]
            condition = None if variable.condition is None else namespace[f"defined{number}"]
            ends, goes = END_OF_MATCH in behind, any(position != END_OF_MATCH for position in behind)
            move = Transition(target, number, variable.many, ends, goes, self.ahead[target])
            by_target.append(GuardedTransition(move, number, condition, not self.reads[number]))
        following = [*follow, self.automaton.start]
        return tuple(tuple(by_target[target] for target in targets if target != END_OF_MATCH) for targets in following)

    def _reads(self, e: x.BoundExpr | None) -> tuple[int, ...]:
        read = set(lower.property_names(e, at=MATCHED_ROWS))
        return tuple(sorted(self._numbers[name.removesuffix("[]")] for name in read))

    def _ahead(self) -> tuple[tuple[int, ...], ...]:
        variables, follow = self.automaton.variables, self.automaton.follow
        before: list[list[int]] = [[] for _ in variables]
        for position, following in enumerate(follow):
            for follower in following:
                if follower != END_OF_MATCH:
                    before[follower].append(position)
        ahead: list[set[int]] = [set() for _ in variables]
        open_ = [
            (at, set(self.reads[variables[follower]])) for follower in range(len(variables)) for at in before[follower]
        ]
        while open_:
            position, more = open_.pop()
            new = more - ahead[position]
            if new:
                ahead[position] |= new
                open_ += [(follower, new) for follower in before[position]]
        return tuple(tuple(sorted(follower)) for follower in ahead)

    def _function(
        self, name: str, parameters: str, exprs: Sequence[x.BoundExpr], write: Callable[[CodeScope], None]
    ) -> None:
        with self.source.block(f"def {name}({parameters}):", exprs[0].span):
            write(self.tested(exprs))

    def tested(self, exprs: Sequence[x.BoundExpr]) -> CodeScope:
        """Write the properties of the tested row that `exprs` read into locals; return the scope of `exprs`."""
        own: dict[str, str] = {}
        for number, name in enumerate(lower.property_names(*exprs, at=CURRENT_ROW)):
            own[name] = f"p{number}"
            self.source.line(f"p{number} = e.get({self.source.const(name, 'n')})")
        return self._base.at(
            props={**lower.property_codes(own, CURRENT_ROW), **self._matched}, events={CURRENT_ROW: "e"}
        )

    @property
    def _matched(self) -> dict[tuple[int, str], str]:
        rows: dict[tuple[int, str], str] = {}
        for number, variable in enumerate(self.node.variables):
            rows[MATCHED_ROWS, variable.name] = f"{self._rows}(m[{number}])" if variable.many else f"m[{number}]"
            rows[MATCHED_ROWS, f"{variable.name}[]"] = f"{self._rows}(m[{number}])"
        return rows

    def _truth(self, e: x.BoundExpr, scope: CodeScope) -> None:
        self.source.line(f"return {lower.truth(scope, e)}", e.span)

    def _key(self, scope: CodeScope) -> None:
        self.source.line(f"return {self.key(scope)}", self.node.keys[0].span)

    def key(self, scope: CodeScope) -> str:
        """Return the code of the partition of a row."""
        codes = [key_code(self.source, lower.value(scope, e), e.type) for e in self.node.keys]
        return codes[0] if len(codes) == 1 else f"({', '.join(codes)})"

    def _measures(self) -> None:
        source = self.source
        scope = self._base.at(props=self._matched, events={})
        with source.block("def measures(m, S, now):"):
            values = [(c, lower.value(scope, rebuild_expr(c.value, _direct))) for c in self.node.measures]
            columns = [f"{source.const(c.name, 'n')}: {source.part(c.value.span)}{code}" for c, code in values]
            source.line(f"return {{{', '.join(columns)}}}", self.node.span)

    def _due(self, period: x.BoundExpr) -> None:
        scope = self._base.at(props={}, events={})
        with self.source.block("def interval(since, S, now):"):
            self.source.line(f"return {lower.period_code(scope, 'since', period, period_after)}", period.span)

    def _prior(self, e: x.Prior) -> str:
        row = "e" if e.index == 0 else f"h[-{e.index}]"
        names = lower.property_names(e.value, at=CURRENT_ROW)
        props = {(CURRENT_ROW, name): f"{row}.get({self.source.const(name, 'n')})" for name in names}
        value = lower.value(self._base.at(props=props, events={CURRENT_ROW: row}), e.value)
        return value if e.index == 0 else f"({value} if len(h) >= {e.index} else None)"

    def _one(self, e: x.MatchedRow) -> str:
        run = f"m[{self._numbers[e.rows.property_name.removesuffix('[]')]}]"
        if e.index is None:
            if e.which == "first":
                return f"({run}[5] if {run} is not None else None)"
            helper = last_run_row if e.which == "last" else run_length
            return f"{self.source.bind(f'_{helper.__name__}', helper)}({run})"
        return f"{self.source.bind('_row_at', run_row_at)}({run}, {e.index})"

    def _folded(self, e: x.MeasureAggregate) -> str:
        row = f"r{self._depth}"
        exprs = [e.value, *([] if e.filter is None else [e.filter])]
        names = lower.property_names(*exprs, at=CURRENT_ROW)
        props = {(CURRENT_ROW, name): f"{row}.get({self.source.const(name, 'n')})" for name in names}
        self._depth += 1
        inner = self._base.at(props={**self._matched, **props}, events={CURRENT_ROW: row})
        value = lower.value(inner, e.value)
        test = "" if e.filter is None else f" if {lower.truth(inner, e.filter)}"
        self._depth -= 1
        rows = lower.value(self._base.at(props=self._matched), e.rows)
        fold = self.source.const(row_aggregate(e.name, e.type, e.distinct), "fold")
        return f"{fold}([{value} for {row} in {rows} or (){test}])"


def _direct(e: x.BoundExpr) -> x.BoundExpr:
    """Replace expressions that read one row of a variable, or count the rows, so that the others are not listed."""
    if isinstance(e, x.MethodCall) and e.name in _ROWS and not e.args and _are_rows(e.receiver):
        return x.MatchedRow(e.type, _ROWS[e.name], e.receiver, span=e.span)
    if (
        isinstance(e, x.IndexAccess)
        and _are_rows(e.target)
        and isinstance(e.index, x.Const)
        and type(e.index.value) is int
    ):
        return x.MatchedRow(e.type, "at", e.target, e.index.value, span=e.span)
    return e


def _are_rows(e: x.BoundExpr) -> bool:
    return bool(e.property_of(MATCHED_ROWS)) and e.type.of is not None
