"""match_recognize of the plan as functions in generated source, and as the form that calls them.

In conditions and measures ``m`` holds the rows of a match by variable, ``e`` is the tested row, ``h`` are the rows
before it, ``S`` is the statement's state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from cepbook.engine.patterns.timers import moment
from cepbook.engine.recognize.fold import fold_of, last_row, number_of, row_at, rows_of
from cepbook.engine.recognize.matches import Move, RecognizeForm, Way
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.frozen import key_code
from cepbook.engine.rows.source import Source
from cepbook.errors import Refusal
from cepbook.lang import expr as x
from cepbook.lang import plan as p
from cepbook.lang.chains import MATCHED, TESTED
from cepbook.lang.explain_plan import show_expr
from cepbook.lang.explain_rows import show_variable
from cepbook.lang.recognize import END, automaton
from cepbook.lang.rewrite.expressions import rebuild

FORM = "recognize_form"
_ROWS: dict[str, Literal["first", "last", "number"]] = {
    "array.firstOf": "first",
    "array.lastOf": "last",
    "array.countOf": "number",
}


class RecognizeCode:
    """Writes the functions of one match_recognize. `scope` is that of the statement."""

    def __init__(self, node: p.Recognize, scope: Scope, *, leaves: bool) -> None:
        self.node = node
        self.source: Source = scope.source
        self.leaves = leaves
        self.automaton = automaton(node.pattern)
        self._base = scope.at(now="now", row=self._of_row)
        names = [variable.name for variable in node.variables]
        self._numbers = {name: number for number, name in enumerate(names)}
        self._rows = self.source.bind("_rows_of", rows_of)
        self._depth = 0

    def write(self) -> None:
        """Write all functions."""
        node = self.node
        if node.predicate is not None:
            self._function("admits", "e, S, now", [node.predicate], partial(self._truth, node.predicate))
        if node.keys:
            self._function("partition", "e, S, now", node.keys, self._key)
        for number, variable in enumerate(node.variables):
            if variable.condition is not None:
                e = rebuild(variable.condition, _direct)
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

    def form(self, namespace: Mapping[str, Any]) -> RecognizeForm:
        """What running states are given."""
        node = self.node
        conditions = [v.condition for v in node.variables]
        ways = self._ways(namespace)
        earliest = node.skip == "past last row" and not node.all_matches
        prior = [e.index for c in conditions if c is not None for e in x.walk(c) if isinstance(e, x.Prior)]
        return RecognizeForm(
            ways=ways,
            alike=tuple(all(way.alone for way in some) for some in ways),
            earliest=earliest,
            bounded=earliest and node.interval is None and not self.leaves,
            names=tuple(v.name for v in node.variables),
            many=tuple(v.many for v in node.variables),
            runs=any(v.many for v in node.variables),
            variables=self.automaton.variables,
            back=max(prior, default=0),
            admits=namespace.get("admits"),
            key=namespace.get("partition"),
            measures=namespace["measures"],
            due=namespace.get("interval"),
            too_many=namespace["too_many"],
            skip=node.skip,
            all_matches=node.all_matches,
            or_terminated=node.or_terminated,
            leaves=self.leaves,
            waiting=tuple(show_variable(v, show_expr) for v in node.variables),
            namespace=namespace,
        )

    # -------------------------------------------------------------- facts
    def _ways(self, namespace: Mapping[str, Any]) -> tuple[tuple[Way, ...], ...]:
        """What may follow each position, and at last what a match begins with."""
        variables, follow = self.automaton.variables, self.automaton.follow
        reads = tuple(self._reads(v.condition) for v in self.node.variables)
        ahead = self._ahead(reads)
        ways: list[Way] = []
        for target, number in enumerate(variables):
            variable, behind = self.node.variables[number], follow[target]
            condition = None if variable.condition is None else namespace[f"defined{number}"]
            ends, goes = END in behind, any(each != END for each in behind)
            move = Move(target, number, variable.many, ends, goes, ahead[target])
            ways.append(Way(move, number, condition, not reads[number]))
        following = [*follow, self.automaton.start]
        return tuple(tuple(ways[each] for each in some if each != END) for some in following)

    def _reads(self, e: x.Expr | None) -> tuple[int, ...]:
        """The variables whose rows a condition reads."""
        parts = [] if e is None else x.walk(e)
        read = {part.name for part in parts if isinstance(part, x.Prop) and part.stream == MATCHED}
        return tuple(sorted(self._numbers[name.removesuffix("[]")] for name in read))

    def _ahead(self, reads: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        """Of each position the variables that conditions of all that may come behind it read."""
        variables, follow = self.automaton.variables, self.automaton.follow
        before: list[list[int]] = [[] for _ in variables]
        for position, following in enumerate(follow):
            for each in following:
                if each != END:
                    before[each].append(position)
        ahead: list[set[int]] = [set() for _ in variables]
        open_ = [(at, set(reads[variables[each]])) for each in range(len(variables)) for at in before[each]]
        while open_:
            position, more = open_.pop()
            new = more - ahead[position]
            if new:
                ahead[position] |= new
                open_ += [(each, new) for each in before[position]]
        return tuple(tuple(sorted(each)) for each in ahead)

    # -------------------------------------------------------------- functions
    def _function(self, name: str, parameters: str, exprs: Sequence[x.Expr], write: Callable[[Scope], None]) -> None:
        """Write a function over the tested row; properties of it are locals."""
        with self.source.block(f"def {name}({parameters}):", exprs[0].span):
            write(self._tested(exprs))

    def _tested(self, exprs: Sequence[x.Expr]) -> Scope:
        own: dict[str, str] = {}
        for number, name in enumerate(lower.properties(*exprs, at=TESTED)):
            own[name] = f"p{number}"
            self.source.line(f"p{number} = e.get({self.source.const(name, 'n')})")
        return self._base.at(props={**lower.placed(own, TESTED), **self._matched}, events={TESTED: "e"})

    @property
    def _matched(self) -> dict[tuple[int, str], str]:
        """The rows of variables."""
        found: dict[tuple[int, str], str] = {}
        for number, variable in enumerate(self.node.variables):
            found[MATCHED, variable.name] = f"{self._rows}(m[{number}])" if variable.many else f"m[{number}]"
            found[MATCHED, f"{variable.name}[]"] = f"{self._rows}(m[{number}])"
        return found

    def _truth(self, e: x.Expr, scope: Scope) -> None:
        self.source.line(f"return {lower.truth(scope, e)}", e.span)

    def _key(self, scope: Scope) -> None:
        codes = [key_code(self.source, lower.value(scope, e), e.type) for e in self.node.keys]
        self.source.line(f"return {codes[0] if len(codes) == 1 else '(' + ', '.join(codes) + ')'}")

    def _measures(self) -> None:
        """``measures(m, S, now)``: the event of a match."""
        source = self.source
        scope = self._base.at(props=self._matched, events={})
        with source.block("def measures(m, S, now):"):
            values = [(c, lower.value(scope, rebuild(c.value, _direct))) for c in self.node.measures]
            columns = [f"{source.const(c.name, 'n')}: {source.part(c.value.span)}{code}" for c, code in values]
            source.line(f"return {{{', '.join(columns)}}}", self.node.span)

    def _due(self, period: x.Expr) -> None:
        """``interval(since, S, now)``: the time a period after `since`."""
        parts = (period.months, period.millis) if isinstance(period, x.Period) else (None, period)
        scope = self._base.at(props={}, events={})
        with self.source.block("def interval(since, S, now):"):
            months, units = ("0" if e is None else lower.value(scope, e) for e in parts)
            call = f"{self.source.bind('_moment', moment)}(since, {months}, {units}, {scope.calendar})"
            self.source.line(f"return {call}", period.span)

    # -------------------------------------------------------------- what depends on rows
    def _of_row(self, e: x.Expr) -> str:
        if isinstance(e, x.Prior):
            return self._prior(e)
        if isinstance(e, x.Folded):
            return self._folded(e)
        if isinstance(e, x.MatchedRow):
            return self._one(e)
        raise Refusal("no-row", f"{type(e).__name__.lower()} has no meaning in match_recognize")

    def _prior(self, e: x.Prior) -> str:
        """The value of a row before the tested one, which is itself number 0."""
        row = "e" if e.index == 0 else f"h[-{e.index}]"
        names = lower.properties(e.value, at=TESTED)
        props = {(TESTED, name): f"{row}.get({self.source.const(name, 'n')})" for name in names}
        value = lower.value(self._base.at(props=props, events={TESTED: row}), e.value)
        return value if e.index == 0 else f"({value} if len(h) >= {e.index} else None)"

    def _one(self, e: x.MatchedRow) -> str:
        """A row of a variable, or how many there are."""
        assert isinstance(e.rows, x.Prop)
        run = f"m[{self._numbers[e.rows.name.removesuffix('[]')]}]"
        if e.index is None:
            if e.which == "first":
                return f"({run}[5] if {run} is not None else None)"
            helper = last_row if e.which == "last" else number_of
            return f"{self.source.bind(f'_{helper.__name__}', helper)}({run})"
        return f"{self.source.bind('_row_at', row_at)}({run}, {e.index})"

    def _folded(self, e: x.Folded) -> str:
        """An aggregate over the rows of a variable."""
        row = f"r{self._depth}"
        exprs = [e.value, *([] if e.filter is None else [e.filter])]
        names = lower.properties(*exprs, at=TESTED)
        props = {(TESTED, name): f"{row}.get({self.source.const(name, 'n')})" for name in names}
        self._depth += 1
        inner = self._base.at(props={**self._matched, **props}, events={TESTED: row})
        value = lower.value(inner, e.value)
        test = "" if e.filter is None else f" if {lower.truth(inner, e.filter)}"
        self._depth -= 1
        rows = lower.value(self._base.at(props=self._matched), e.rows)
        fold = self.source.const(fold_of(e.name, e.type, e.distinct), "fold")
        return f"{fold}([{value} for {row} in {rows} or (){test}])"


def _direct(e: x.Expr) -> x.Expr:
    """`e`, where it reads one row of a variable, or counts them, without listing the others."""
    if isinstance(e, x.MethodCall) and e.name in _ROWS and not e.args and _are_rows(e.receiver):
        return x.MatchedRow(e.type, _ROWS[e.name], e.receiver, span=e.span)
    if isinstance(e, x.Index) and _are_rows(e.target) and isinstance(e.index, x.Const) and type(e.index.value) is int:
        return x.MatchedRow(e.type, "at", e.target, e.index.value, span=e.span)
    return e


def _are_rows(e: x.Expr) -> bool:
    return isinstance(e, x.Prop) and e.stream == MATCHED and e.type.of is not None
