"""Cells of aggregates, by kind, and the code of what an entering and a leaving event do to them.

A cell is a local variable of generated code that holds a count, a sum or an accumulator of the present group. Most
kinds are templates (`CELL_KINDS`). Counts,  sums and the values seen by ``distinct`` depend on the type of the value;
`CellUpdate` writes them.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from decimal import Decimal

from cepbook.engine.aggregates import accumulators
from cepbook.engine.expressions import primitives
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.sort_keys import sort_key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.physical.operators import Eviction
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.references import streams_read
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class CellKind:
    """Templates of the lines for an entering and a leaving event.

    ``{c}`` is the cell, ``{v}`` the value, ``{w}`` the second value, ``{k}`` the sort key, ``{o}`` the ordinal of the
    event, ``{p}`` the ordinal of the event of the only stream of a join that is read. `nulls`: null values count, too.
    `assigned`: the lines assign the cell. `by_ordinal`: they read ``{o}``.
    """

    enter: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    nulls: bool = False
    assigned: bool = False
    by_ordinal: bool = False


CELL_KINDS = {
    # values that nothing undoes
    "first": CellKind(("if {c} is EMPTY: {c} = {v}",), nulls=True, assigned=True),
    "last": CellKind(("{c} = {v}",), nulls=True, assigned=True),
    "first value": CellKind(("if {c} is EMPTY: {c} = {v}",), assigned=True),
    "last value": CellKind(("{c} = {v}",), assigned=True),
    "least": CellKind(("if {c} is None or {v} < {c}: {c} = {v}",), assigned=True),
    "greatest": CellKind(("if {c} is None or {v} > {c}: {c} = {v}",), assigned=True),
    "ever": CellKind(("{c} += 1",), assigned=True),
    "bottom": CellKind(
        ("a_key = {k}", "if {c} is None or a_key < {c}[0]: {c} = (a_key, {v})"), nulls=True, assigned=True
    ),
    "top": CellKind(("a_key = {k}", "if {c} is None or a_key > {c}[0]: {c} = (a_key, {v})"), nulls=True, assigned=True),
    # monotonic deques, for events that leave in order
    "rising": CellKind(
        ("while {c} and {v} < {c}[-1]: {c}.pop()", "{c}.append({v})"), ("if {c}[0] == {v}: {c}.popleft()",)
    ),
    "falling": CellKind(
        ("while {c} and {v} > {c}[-1]: {c}.pop()", "{c}.append({v})"), ("if {c}[0] == {v}: {c}.popleft()",)
    ),
    # the same of floating numbers, among which NaN is the highest
    "least float": CellKind(("if {c} is None or {v} < {c} or {c} != {c}: {c} = {v}",), assigned=True),
    "greatest float": CellKind(("if {c} is None or {v} > {c} or {v} != {v}: {c} = {v}",), assigned=True),
    "rising float": CellKind(
        ("while {c} and ({v} < {c}[-1] or {c}[-1] != {c}[-1] and {v} == {v}): {c}.pop()", "{c}.append({v})"),
        ("if {c}[0] == {v} or {v} != {v} and {c}[0] != {c}[0]: {c}.popleft()",),
    ),
    "falling float": CellKind(
        ("while {c} and ({v} > {c}[-1] or {v} != {v} and {c}[-1] == {c}[-1]): {c}.pop()", "{c}.append({v})"),
        ("if {c}[0] == {v} or {v} != {v} and {c}[0] != {c}[0]: {c}.popleft()",),
    ),
    "sorted float": CellKind(("if {v} == {v}: {c}.add({v})",), ("if {v} == {v}: {c}.discard({v})",)),
    "nans": CellKind(("if {v} != {v}: {c} += 1",), ("if {v} != {v}: {c} -= 1",), assigned=True),
    # values in the order of entry
    "list": CellKind(("{c}.append({v})",), nulls=True),
    "deque": CellKind(("{c}.append({v})",), ("{c}.popleft()",), nulls=True),
    "by ordinal": CellKind(("{c}[{o}] = {v}",), ("{c}.pop({o}, None)",), nulls=True, by_ordinal=True),
    "values by ordinal": CellKind(("{c}[{o}] = {v}",), ("{c}.pop({o}, None)",), by_ordinal=True),
    "recent": CellKind(("{c}.append({v})",)),  # the latest few; a count says how many have not left
    "once": CellKind(("{c}.enter({p}, {v})",), ("{c}.leave({p})",), nulls=True, by_ordinal=True),
    # orders and statistics
    "sorted": CellKind(("{c}.add({v})",), ("{c}.discard({v})",)),
    "quantiles": CellKind(("{c}.enter({v})",), ("{c}.leave({v})",)),
    "spread": CellKind(("{c}.enter({v})",), ("{c}.leave({v})",)),
    "ranked": CellKind(("{c}.enter({k}, {v}, {o})",), ("{c}.leave({o})",), nulls=True, by_ordinal=True),
    "ranked once": CellKind(("{c}.enter({k}, {v}, {p})",), ("{c}.leave({p})",), nulls=True, by_ordinal=True),
    # time
    "arrivals": CellKind(("{c}.enter({v})",)),
    "flow": CellKind(("{c}.enter({v}, {w})",), ("{c}.leave({v}, {w})",)),
    "gone": CellKind((), ("{c} = True",), nulls=True, assigned=True),
    "touched": CellKind(("{c} = now",), ("{c} = now",), nulls=True, assigned=True),
    # a class from Python
    "supplied": CellKind(("{c}.enter({v})",), ("{c}.leave({v})",)),
    # aggregates that are an accumulator and no more
    **{name: CellKind(("{c}.enter({v})",), ("{c}.leave({v})",)) for name in accumulators.ACCUMULATORS},
}


@dataclass(slots=True)
class ArgumentCells:
    """The cells of one list of arguments, by kind, as local names.

    `ever`: leaving events are not taken out, not even of the values seen (``countever(distinct x)``). `remembered` is
    the cell that keeps values by ordinal, if they may change before their event leaves. `some` is the code of whether
    the group has a value that is not null.
    """

    exprs: tuple[x.BoundExpr, ...]
    distinct: bool
    filter: x.BoundExpr | None
    criteria: tuple[tuple[x.BoundExpr, bool], ...] = ()
    ever: bool = False
    cells: dict[str, str] = field(default_factory=dict)
    remembered: str | None = None
    some: str = ""
    # True if evaluation may fail: then the event does not count, and ``broken`` holds the exception
    risky: bool = field(init=False)

    def __post_init__(self) -> None:
        self.risky = lower.may_fail(*self.exprs, self.filter, *(e for e, _ in self.criteria))

    @property
    def expr(self) -> x.BoundExpr | None:
        return self.exprs[0] if self.exprs else None

    @property
    def stream(self) -> int | None:
        """The only stream that values and criteria are read from; None if there are several or none."""
        streams = streams_read(*self.exprs, *(e for e, _ in self.criteria))
        return streams.pop() if len(streams) == 1 else None

    @property
    def assigned(self) -> set[str]:
        """The locals that the code of a `CellUpdate` assigns."""
        plain = ("n", "nulls", "s", "lost")
        assigned = {*plain, *(kind for kind, row in CELL_KINDS.items() if row.assigned)}
        return {cell for kind, cell in self.cells.items() if kind in assigned}


@dataclass(frozen=True, slots=True)
class CellUpdate:
    """Writes what an entering or leaving event does to the cells of one argument. `second` and `sort_key` are locals
    that have the second value and the sort key, if they are computed before. `store` is the line after a change of the
    number of nulls.
    """

    argument: ArgumentCells
    scope: CodeScope
    leaving: Eviction
    entering: bool
    ordinal: str | None
    second: str | None = None
    sort_key: str | None = None
    store: str = ""

    @property
    def source(self) -> SourceWriter:
        return self.scope.source

    def write(self) -> None:
        """Write the update under the filter of the argument."""
        argument, source = self.argument, self.source
        if not self.entering and not self._changes():
            return
        if argument.remembered is not None and not self.entering:
            with source.block(f"if {self.ordinal} in {argument.remembered}:"):
                source.line(f"arg, arg2 = {argument.remembered}.pop({self.ordinal})")
                replace(self, second="arg2")._visit("arg")
            return
        if argument.risky:
            self._write_risky()
            return
        test = None if argument.filter is None else f"if {lower.truth(self.scope, argument.filter)}:"
        with nullcontext() if test is None else source.block(test, argument.filter.span if argument.filter else None):
            code = self._value()
            if argument.remembered is not None:
                source.line(f"{argument.remembered}[{self.ordinal}] = ({code or None}, {self._second()})")
            self._visit(code)

    def _write_risky(self) -> None:
        """Update the cells only once all values are known; keep a failure in ``broken`` until the delta is complete."""
        argument, source = self.argument, self.source
        span = argument.expr.span if argument.expr is not None else None
        with source.block("try:"):
            passes = "True" if argument.filter is None else lower.truth(self.scope, argument.filter)
            source.line(f"passed = {passes}", argument.filter.span if argument.filter is not None else None)
            with source.block("if passed:"):
                value = "None" if argument.expr is None else lower.value(self.scope, argument.expr)
                source.line(f"arg = {value}", span)
                source.line(f"arg2 = {self._second()}", argument.exprs[-1].span if argument.exprs else None)
                if argument.criteria:
                    first, last = argument.criteria[0][0], argument.criteria[-1][0]
                    key = sort_key_code(self.scope, argument.criteria)
                    source.line(f"arg_key = {key}", first.span.to(last.span))
        with source.block("except Exception as failure:"):
            source.line("broken, passed = failure, False")
        with source.block("if passed:"):
            if argument.remembered is not None:
                source.line(f"{argument.remembered}[{self.ordinal}] = arg, arg2")
            replace(self, second="arg2", sort_key="arg_key")._visit("arg")

    def _changes(self) -> bool:
        if self.argument.ever:
            return False
        return any(kind not in CELL_KINDS or CELL_KINDS[kind].leave for kind in self.argument.cells)

    def _lines(self, kind: str) -> tuple[str, ...]:
        if kind not in CELL_KINDS:
            return ()
        return CELL_KINDS[kind].enter if self.entering else CELL_KINDS[kind].leave

    def _value(self) -> str:
        e = self.argument.expr
        if e is None:
            return ""
        code = lower.value(self.scope, e)
        read = any(kind not in CELL_KINDS or "{v}" in "".join(self._lines(kind)) for kind in self.argument.cells)
        if code.isidentifier() or not read:
            return code
        self.source.line(f"arg = {code}", e.span)
        return "arg"

    def _second(self) -> str:
        if self.second is not None:
            return self.second
        return lower.value(self.scope, self.argument.exprs[1]) if len(self.argument.exprs) > 1 else "1"

    def _visit(self, v: str) -> None:
        argument, source = self.argument, self.source
        counted = False
        for kind, cell in argument.cells.items():
            if kind in CELL_KINDS and (argument.expr is None or CELL_KINDS[kind].nulls):
                self._template(kind, cell, v)
            elif argument.expr is None:
                source.line(f"{cell} {'+' if self.entering else '-'}= 1")
            else:
                counted = counted or kind not in CELL_KINDS or bool(self._lines(kind))
        if not counted or argument.expr is None:
            return
        nulls = argument.cells.get("nulls")
        if not argument.expr.nullable:
            self._count(v)
        elif nulls is None:
            with source.block(f"if {v} is not None:", argument.expr.span):
                self._count(v)
        else:
            moves = any(self._lines(kind) if kind in CELL_KINDS else kind != "nulls" for kind in argument.cells)
            if moves:
                with source.block(f"if {v} is not None:", argument.expr.span):
                    self._count(v)
            with source.block("else:" if moves else f"if {v} is None:", argument.expr.span):
                source.line(f"{nulls} {'+' if self.entering else '-'}= 1")
                if self.store:
                    source.line(self.store)

    def _template(self, kind: str, cell: str, v: str) -> None:
        o = None if self.leaving is Eviction.NONE else self.ordinal
        for line in self._lines(kind):
            w = self._second() if "{w}" in line else ""
            k = (self.sort_key or sort_key_code(self.scope, self.argument.criteria)) if "{k}" in line else ""
            self.source.line(line.format(c=cell, v=v, w=w, k=k, o=o, p=f"q{self.argument.stream}_o"))

    def _count(self, v: str) -> None:
        source, argument = self.source, self.argument
        if not argument.distinct:
            self._add(v)
            return
        assert argument.expr is not None
        seen, key = argument.cells["seen"], key_code(source, v, argument.expr.type)
        if not key.isidentifier():
            source.line(f"frozen = {key}")
            key = "frozen"
        source.line(f"held = {seen}.get({key}, 0)")
        if self.entering:
            source.line(f"{seen}[{key}] = held + 1")
            with source.block("if not held:"):
                self._add(v)
        else:
            with source.block("if held > 1:"):
                source.line(f"{seen}[{key}] = held - 1")
            with source.block("elif held:"):
                source.line(f"del {seen}[{key}]")
                self._add(v)

    def _add(self, v: str) -> None:
        cells = self.argument.cells
        for kind, cell in cells.items():
            if kind in CELL_KINDS and not CELL_KINDS[kind].nulls:
                self._template(kind, cell, v)
        if "n" in cells:
            self.source.line(f"{cells['n']} {'+' if self.entering else '-'}= 1")
        if "lost" in cells:
            self._compensated_sum(cells["s"], cells["lost"], v)
        elif "s" in cells:
            self._sum(cells["s"], v)

    def _sum(self, total: str, v: str) -> None:
        source, e = self.source, self.argument.expr
        assert e is not None
        change = f"{total} {'+' if self.entering else '-'} {v}"
        if e.type.name == "float":
            change = f"{source.bind('_single', primitives.to_float32)}({change})"
        if self.entering and not self.argument.some:
            source.line(f"{total} = {v} if {total} is None else {change}")
        elif self.entering:
            source.line(f"{total} = {change}")
        else:  # an empty window forgets the rounding errors of its sum
            source.line(f"{total} = {change} if {self.argument.some} else {zero_code(source, e.type)}")

    def _compensated_sum(self, total: str, lost: str, v: str) -> None:
        """Write Neumaier's sum in Knuth's branchless form; the rounding loss is kept beside it."""
        source, cells, sign = self.source, self.argument.cells, "+" if self.entering else "-"
        source.line(f"grown = {total} {sign} {v}")
        with source.block("if grown - grown == 0.0:"):
            source.line(f"part = grown - {total}")
            source.line(f"{lost} += ({total} - (grown - part)) + ({'' if self.entering else '-'}{v} - part)")
            source.line(f"{total} = grown")
        with source.block("else:"):
            spill = source.bind("_spill", accumulators.add_with_overflow)
            source.line(f"{total}, {lost} = {spill}({total}, {lost}, {v}, {sign}1, {cells['spilled']})")
        if not self.entering:
            with source.block(f"if not {cells['n']}:" if "n" in cells else f"if not ({self.argument.some}):"):
                source.line(f"{total} = {lost} = 0.0")
                source.line(f"{cells['spilled']}[3] = 0")


def zero_code(source: SourceWriter, of: Type) -> str:
    if of.name in ("double", "float"):
        return "0.0"
    return source.const(Decimal(0), "zero") if of.name == "bigdecimal" else "0"
