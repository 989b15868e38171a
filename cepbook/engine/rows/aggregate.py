"""Incremental aggregates as code: what to keep, what an entering and a leaving event do to it, what the value is.

The state of one group is a list of cells. Generated functions unpack it into locals, run `enter` and `leave` on them
and put them back. Calls over the same argument share cells (``sum(x)`` and ``avg(x)`` keep one sum and one count).

How a minimum or a first value is kept depends on how events leave:

====================  =========================  ===============================
`Leaving.NEVER`       one running value          unbound streams, batches
`Leaving.IN_ORDER`    a monotonic deque          length, time: the oldest leaves
`Leaving.ANYHOW`      a sorted list              unique: any event may leave
====================  =========================  ===============================
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from sortedcontainers import SortedList

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows import support
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.frozen import hashable, is_hashable
from cepbook.engine.rows.source import Source
from cepbook.errors import Refusal
from cepbook.lang import expr as x
from cepbook.lang.plan import AggregateCall
from cepbook.lang.types import BITS, Type


class Leaving(Enum):
    """How events of one group leave it."""

    NEVER = "never"
    IN_ORDER = "in order"
    ANYHOW = "anyhow"


EMPTY = type("Empty", (), {"__repr__": lambda self: "EMPTY", "__slots__": ()})()


@dataclass(slots=True)
class Argument:
    """Everything kept about one (argument, distinct, filter): the cells by kind, as local names."""

    expr: x.Expr | None
    distinct: bool
    filter: x.Expr | None
    cells: dict[str, str] = field(default_factory=dict)


class Aggregates:
    """The aggregate calls of one statement, as cells and code. `names` are the locals of one group, in order."""

    def __init__(self, source: Source, calls: Sequence[AggregateCall], leaving: Leaving, counted: bool) -> None:
        self.source = source
        self.leaving = leaving
        self.names: list[str] = []
        self.initial: list[str] = []
        self.arguments: list[Argument] = []
        self.needs_ordinal = False
        self.size = self._cell(None, "n") if counted else None
        self._counted = {_identity(call) for call in calls if call.name in ("avg", "count")}
        self.values = [self._value(call) for call in calls]

    # -------------------------------------------------------------- what is kept
    def _argument(self, call: AggregateCall) -> Argument:
        expr = call.args[0] if call.args else None
        distinct = call.distinct and call.name in ("count", "sum", "avg")
        for known in self.arguments:
            if known.expr == expr and known.distinct == distinct and known.filter == call.filter:
                return known
        made = Argument(expr, distinct, call.filter)
        self.arguments.append(made)
        if distinct:
            self._cell(made, "seen")
        return made

    def _cell(self, argument: Argument | None, kind: str, initial: str = "0") -> str:
        if argument is None:
            argument = next((a for a in self.arguments if a.expr is None and a.filter is None), None)
            if argument is None:
                argument = Argument(None, False, None)
                self.arguments.append(argument)
        name = argument.cells.get(kind)
        if name is None:
            name = f"a{len(self.names)}"
            argument.cells[kind] = name
            self.names.append(name)
            self.initial.append("{}" if kind == "seen" else initial)
        return name

    def _value(self, call: AggregateCall) -> str:
        if self.leaving is not Leaving.NEVER and call.ever:
            raise Refusal("ever-aggregate", f"`{call.name}` over all events ever is not available over a window")
        argument = self._argument(call)
        if call.name == "count":
            return self._cell(argument, "n")
        if call.name in ("sum", "avg"):
            return self._sum(call, argument)
        if call.name in ("min", "max"):
            return self._extreme(call, argument)
        if call.name in ("first", "last"):
            return self._ends(call, argument)
        raise Refusal("no-lowering", f"the row engine has no code for the aggregate `{call.name}`")

    def _sum(self, call: AggregateCall, argument: Argument) -> str:
        of = argument.expr.type if argument.expr is not None else call.type
        if self.leaving is Leaving.NEVER and _identity(call) not in self._counted:
            total, count = self._cell(argument, "s", "None"), ""  # null until there is a value: no count needed
        else:
            total, count = self._cell(argument, "s", self._zero(of)), self._cell(argument, "n")
        value = total
        if of.name in BITS:
            bits = max(32, BITS[of.name])
            half = 1 << (bits - 1)
            wrap = self.source.bind("_wrap", support.wrap)
            value = f"({total} if -{half} <= {total} < {half} else {wrap}({total}, {bits}))"
        if call.name == "avg":
            value = f"{value} / {count}"
        return f"({value} if {count or f'{total} is not None'} else None)" if count or value != total else total

    def _zero(self, of: Type) -> str:
        if of.name in ("double", "float"):
            return "0.0"
        return self.source.const(Decimal(0), "zero") if of.name == "bigdecimal" else "0"

    def _extreme(self, call: AggregateCall, argument: Argument) -> str:
        if self.leaving is Leaving.NEVER:
            return self._cell(argument, call.name, "None")
        if self.leaving is Leaving.IN_ORDER:
            name = self._cell(argument, call.name, f"{self.source.bind('_deque', deque)}()")
            return f"({name}[0] if {name} else None)"
        name = self._cell(argument, "sorted", f"{self.source.bind('_SortedList', SortedList)}()")
        return f"({name}[{0 if call.name == 'min' else -1}] if {name} else None)"

    def _ends(self, call: AggregateCall, argument: Argument) -> str:
        if call.index is None and self.leaving is Leaving.NEVER:
            if call.name == "last":
                return self._cell(argument, "last", "None")
            empty = self.source.bind("EMPTY", EMPTY)
            name = self._cell(argument, "first", empty)
            return f"({name} if {name} is not {empty} else None)"
        if self.leaving is Leaving.ANYHOW:
            self.needs_ordinal = True
            name = self._cell(argument, "by_ordinal", "{}")
            if call.index is not None:
                nth = self.source.bind("_nth_value", nth_value)
                return f"{nth}({name}, {self._position(call)}, {call.name == 'last'})"
            walk = f"{name}.values()" if call.name == "first" else f"reversed({name}.values())"
            return f"(next(iter({walk})) if {name} else None)"
        name = self._cell(argument, "values", f"{self.source.bind('_deque', deque)}()")
        if call.index is None:
            return f"({name}[{0 if call.name == 'first' else -1}] if {name} else None)"
        at = self._position(call)
        place = at if call.name == "first" else f"-1 - {at}"
        return f"({name}[{place}] if 0 <= {at} < len({name}) else None)"

    def _position(self, call: AggregateCall) -> str:
        if not isinstance(call.index, x.Const):
            raise Refusal("computed-index", f"the index of `{call.name}` must be a constant")
        return str(call.index.value)

    # -------------------------------------------------------------- code
    def fresh(self) -> str:
        """Code of a list with the cells of an empty group."""
        return "[" + ", ".join(self.initial) + "]"

    def load(self, state: str) -> None:
        """Unpack the group's list into the locals."""
        if self.names:
            self.source.line(f"{', '.join(self.names)}{',' if len(self.names) == 1 else ''} = {state}")

    def store(self, state: str) -> None:
        """Put the locals that `enter` and `leave` assign back into the group's list."""
        for position, name in enumerate(self.names):
            if self._assigned(name):
                self.source.line(f"{state}[{position}] = {name}")

    def _assigned(self, name: str) -> bool:
        for argument in self.arguments:
            for kind, cell in argument.cells.items():
                if cell == name:
                    if kind in ("min", "max"):
                        return self.leaving is Leaving.NEVER
                    return kind in ("n", "s", "first", "last")
        return False

    def enter(self, scope: Scope, ordinal: str | None = None) -> None:
        """Code that adds the event of `scope` to the locals."""
        for argument in self.arguments:
            self._visit(scope, argument, entering=True, ordinal=ordinal)

    def leave(self, scope: Scope, ordinal: str | None = None) -> None:
        """Code that takes the event of `scope` out of the locals again."""
        for argument in self.arguments:
            self._visit(scope, argument, entering=False, ordinal=ordinal)

    def _visit(self, scope: Scope, argument: Argument, *, entering: bool, ordinal: str | None) -> None:
        source = self.source
        if argument.filter is not None:
            with source.block(f"if {lower.truth(scope, argument.filter)}:", argument.filter.span):
                self._visit(
                    scope,
                    Argument(argument.expr, argument.distinct, None, argument.cells),
                    entering=entering,
                    ordinal=ordinal,
                )
            return
        cells = argument.cells
        if argument.expr is None:
            source.line(f"{cells['n']} {'+' if entering else '-'}= 1")
            return
        code = lower.value(scope, argument.expr)
        kept = {"first", "last", "values", "by_ordinal"} & cells.keys()
        counted = cells.keys() - {"first", "last", "values", "by_ordinal"}
        if not code.isidentifier():
            source.line(f"arg = {code}", argument.expr.span)
            code = "arg"
        for kind in sorted(kept):
            self._keep(kind, cells[kind], code, entering=entering, ordinal=ordinal)
        if not counted:
            return
        if lower.nullable(argument.expr):
            with source.block(f"if {code} is not None:", argument.expr.span):
                self._count(argument, code, entering=entering)
        else:
            self._count(argument, code, entering=entering)

    def _keep(self, kind: str, cell: str, v: str, *, entering: bool, ordinal: str | None) -> None:
        source = self.source
        if kind == "last" and entering:
            source.line(f"{cell} = {v}")
        elif kind == "first" and entering:
            with source.block(f"if {cell} is EMPTY:"):
                source.line(f"{cell} = {v}")
        elif kind == "values":
            source.line(f"{cell}.append({v})" if entering else f"{cell}.popleft()")
        elif kind == "by_ordinal":
            source.line(f"{cell}[{ordinal}] = {v}" if entering else f"del {cell}[{ordinal}]")

    def _count(self, argument: Argument, v: str, *, entering: bool) -> None:
        source, cells = self.source, argument.cells
        for kind in ("min", "max", "sorted"):
            if kind in cells:
                self._order(kind, cells[kind], v, entering=entering)
        if not argument.distinct:
            self._add(argument, v, entering=entering)
            return
        seen, key = cells["seen"], v
        if argument.expr is not None and not is_hashable(argument.expr.type):
            key = "frozen"
            source.line(f"frozen = {source.bind('_hashable', hashable)}({v})")
        if entering:
            source.line(f"held = {seen}.get({key}, 0)")
            source.line(f"{seen}[{key}] = held + 1")
            with source.block("if not held:"):
                self._add(argument, v, entering=True)
        else:
            source.line(f"held = {seen}[{key}] - 1")
            with source.block("if held:"):
                source.line(f"{seen}[{key}] = held")
            with source.block("else:"):
                source.line(f"del {seen}[{key}]")
                self._add(argument, v, entering=False)

    def _add(self, argument: Argument, v: str, *, entering: bool) -> None:
        source, cells = self.source, argument.cells
        sign = "+" if entering else "-"
        if "n" in cells:
            source.line(f"{cells['n']} {sign}= 1")
        if "s" not in cells:
            return
        of = argument.expr.type if argument.expr is not None else None
        total = cells["s"]
        change = f"{total} {sign} {v}"
        if of is not None and of.name == "float":
            change = f"{source.bind('_single', support.single)}({change})"
        if entering and "n" not in cells:
            source.line(f"{total} = {v} if {total} is None else {change}")
        elif entering:
            source.line(f"{total} = {change}")
        else:  # an empty window forgets the rounding errors of its sum
            zero = self._zero(of) if of is not None else "0"
            source.line(f"{total} = {change} if {cells['n']} else {zero}")

    def _order(self, kind: str, cell: str, v: str, *, entering: bool) -> None:
        source = self.source
        if kind == "sorted":
            source.line(f"{cell}.add({v})" if entering else f"{cell}.remove({v})")
            return
        smaller = "<" if kind == "min" else ">"
        if self.leaving is Leaving.NEVER:
            with source.block(f"if {cell} is None or {v} {smaller} {cell}:"):
                source.line(f"{cell} = {v}")
        elif entering:
            with source.block(f"while {cell} and {v} {smaller} {cell}[-1]:"):
                source.line(f"{cell}.pop()")
            source.line(f"{cell}.append({v})")
        else:
            with source.block(f"if {cell}[0] == {v}:"):
                source.line(f"{cell}.popleft()")


def _identity(call: AggregateCall) -> tuple[x.Expr | None, bool, x.Expr | None]:
    """What calls must share to share cells."""
    return (call.args[0] if call.args else None, call.distinct, call.filter)


def nth_value(values: dict[int, object], position: int, from_end: bool) -> object:
    """The value `position` places from the first or last one; None beyond."""
    found = list(values.values())
    if not 0 <= position < len(found):
        return None
    return found[-1 - position] if from_end else found[position]
