"""Incremental aggregation as code: cells to keep, the updates of entering and leaving events, and the values.

The state of one group is a list of cells. Generated functions unpack the list into locals, update these and store
them again, so the cost per event does not depend on the window size. Calls over the same argument share cells:
``sum(x)`` and ``avg(x)`` keep one sum and one count.

The eviction order decides what a minimum or a first value must keep:

=====================  =========================  =================================
`Eviction.NONE`        one running value          unbounded streams, batches
`Eviction.FIFO`        a monotonic deque          length, time: oldest leaves first
`Eviction.ARBITRARY`   a sorted list              unique, sort, joins
=====================  =========================  =================================

Sums, counts and deviations are invertible: a leaving value is subtracted. Aggregates over all events ever (``maxever``)
keep one running value in each case, and leaving events do not change it.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal

from cepbook.engine.aggregates import accumulators
from cepbook.engine.aggregates.accumulators import ACCUMULATORS
from cepbook.engine.aggregates.cells import CELL_KINDS, ArgumentCells, CellUpdate, zero_code
from cepbook.engine.aggregates.deviations import RecoveringStandardDeviation, StandardDeviation
from cepbook.engine.aggregates.quantile_sketch import QuantileSketch
from cepbook.engine.aggregates.user_aggregate import UserAggregate
from cepbook.engine.expressions import primitives
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.physical.operators import TIME_VARYING, Eviction
from cepbook.engine.state import SortedList, StateMarker
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.aggregates import AGGREGATES, USER_AGGREGATE, aggregate_row
from cepbook.lang.types import BITS

_FLOATING = ("double", "float", "object")  # types with a value that is no number


class AggregateCodegen:
    """The aggregate calls of one statement. `names` are the cells of one group, `values` the code of each call's value.

    With `remembers` cells know which events they contain, and another event that leaves is ignored. With `touched` the
    cell at that index has the time of the group's latest update. With `joined` an aggregate that holds events holds
    each event once, however many rows contain it.
    """

    def __init__(
        self,
        scope: CodeScope,
        calls: Sequence[AggregateCall],
        leaving: Eviction,
        counted: bool,
        prefix: str = "a",
        *,
        remembers: bool = False,
        touched: bool = False,
        shuffled: bool = False,
        joined: bool = False,
        remembered: Callable[[], str] | None = None,
    ) -> None:
        """`shuffled`: events may enter out of order; values are kept in the order of their ordinals. `remembered`
        returns the code of a new dict outside the cells, for the values of events that must leave as they entered.
        """
        self._remembered = remembered or (lambda: self._local("{}"))
        self.by_ordinal: type[Any] = accumulators.OrdinalMap if shuffled else OrderedDict
        self.scope = scope
        self.source: SourceWriter = scope.source
        self.leaving = leaving
        self.joined = joined
        self.remembers = remembers and leaving is not Eviction.NONE
        self.prefix = prefix
        self.names: list[str] = []
        self.initial: list[str] = []
        self.arguments: list[ArgumentCells] = []
        self._by_identity: dict[_Identity, ArgumentCells] = {}
        self.needs_ordinal = False
        self.reads_now = False
        self.size = self._cell(self._events(), "n") if counted else None
        self._loaded = ""  # code of the list that was last unpacked
        self._whole = self._count_of_events(calls)
        self.touched = self.names.index(self._cell(self._events(), "touched")) if touched else None
        self._counted = {_identity(call) for call in calls if _VALUES[call.name] in _COUNTED}
        self.calls = calls
        self.values = [self._value(call) for call in calls]

    def _argument(self, call: AggregateCall) -> ArgumentCells:
        identity = _identity(call)
        argument = self._by_identity.get(identity)
        if argument is None:
            argument = self._by_identity[identity] = ArgumentCells(*identity)
            self.arguments.append(argument)
            if argument.distinct:
                self._cell(argument, "seen", "{}")
        read = [e for e in (*argument.exprs, argument.filter) if e is not None]
        varies = any(isinstance(node, TIME_VARYING) for e in read for node in x.walk(e))
        changing = self.remembers or argument.risky or varies
        lasts = call.ever or call.has_period
        if changing and self.leaving is not Eviction.NONE and not lasts:
            self._remember(argument)
        return argument

    def argument_of(self, call: AggregateCall) -> ArgumentCells:
        """Return the cells of the argument of one of the calls."""
        return self._by_identity[_identity(call)]

    def _remember(self, argument: ArgumentCells) -> None:
        if argument.remembered is None:
            argument.remembered = self._remembered()
            self.needs_ordinal = True

    def _events(self) -> ArgumentCells:
        for known in self.arguments:
            if not known.exprs and known.filter is None:
                return known
        argument = self._by_identity[_EVENTS] = ArgumentCells(*_EVENTS)
        self.arguments.append(argument)
        if self.remembers:
            self._remember(argument)
        return argument

    def _local(self, initial: str) -> str:
        name = f"{self.prefix}{len(self.names)}"
        self.names.append(name)
        self.initial.append(initial)
        return name

    def _cell(self, argument: ArgumentCells, kind: str, initial: str = "0") -> str:
        name = argument.cells.get(kind)
        if name is None:
            name = argument.cells[kind] = self._local(initial)
            if kind in CELL_KINDS and CELL_KINDS[kind].by_ordinal and self.leaving is not Eviction.NONE:
                self.needs_ordinal = True
        return name

    def _count_of_events(self, calls: Sequence[AggregateCall]) -> str | None:
        """Return the cell that counts all events, if there is a reliable one."""
        if self.remembers:
            return None
        of_all = (_VALUES[call.name] is AggregateCodegen._count and _identity(call) == _EVENTS for call in calls)
        return self._cell(self._events(), "n") if self.size is not None or any(of_all) else None

    def _number(self, argument: ArgumentCells) -> tuple[str, str]:
        """Return the code of the number of values that are not null, and of whether there are any. Next to a count of
        all events only nulls are counted, which are rare.
        """
        whole = self._whole
        apart = argument.distinct or argument.filter is not None or argument.risky or argument.remembered is not None
        if whole is None or apart or len(argument.exprs) != 1 or "n" in argument.cells:
            argument.some = count = self._cell(argument, "n")
            return count, count
        e = argument.exprs[0]
        if not e.nullable:
            argument.some = whole
            return whole, whole
        nulls = self._cell(argument, "nulls")
        argument.some = f"{whole} != {nulls}"
        return f"({whole} - {nulls})", argument.some

    def _made(self, argument: ArgumentCells, kind: str, make: Callable[..., object], arguments: str = "") -> str:
        called = getattr(make, "__name__", kind)  # partial functions have no name
        return self._cell(argument, kind, f"{self.source.bind(f'_{called}', make)}({arguments})")

    def _value(self, call: AggregateCall) -> str:
        if call.group_by is not None:
            raise Refusal("local-grouping", "group_by in an aggregate")
        return _VALUES[call.name](self, call, self._argument(call))

    def _count(self, call: AggregateCall, argument: ArgumentCells) -> str:
        return self._number(argument)[0] if argument.exprs else self._cell(argument, "n")

    def _sum(self, call: AggregateCall, argument: ArgumentCells, *, mean: bool = False) -> str:
        of = argument.expr.type if argument.expr is not None else call.type
        if self.leaving is Eviction.NONE and _identity(call) not in self._counted:
            total, count = self._cell(argument, "s", "None"), ""  # null until there is a value: no count needed
            some = f"{total} is not None"
        else:
            total = self._cell(argument, "s", zero_code(self.source, of))
            count, some = self._number(argument)
        value = total
        if self.scope.compensated_sums and self.leaving is not Eviction.NONE and of.name in ("double", "float"):
            lost = self._cell(argument, "lost", "0.0")
            spilled = self._cell(argument, "spilled", "[0, 0, 0, 0]")
            value = f"{self.source.bind('_compensated', accumulators.compensated_total)}({total}, {lost}, {spilled})"
            if of.name == "float":
                value = f"{self.source.bind('_single', primitives.to_float32)}({value})"
        elif of.name in BITS:
            bits = max(32, BITS[of.name])
            half = 1 << (bits - 1)
            wrap = self.source.bind("_wrap", primitives.wrap)
            value = f"({total} if -{half} <= {total} < {half} else {wrap}({total}, {bits}))"
        if mean:
            value = f"{value} / {count}"
        return f"({value} if {some} else None)" if count or value != total else total

    def _extreme(self, call: AggregateCall, argument: ArgumentCells, *, least: bool) -> str:
        floating = " float" * (call.type.name in _FLOATING)
        if self.leaving is Eviction.NONE or call.ever:
            return self._cell(argument, ("least" if least else "greatest") + floating, "None")
        if self.leaving is Eviction.FIFO:
            name = self._made(argument, ("rising" if least else "falling") + floating, deque)
            return f"({name}[0] if {name} else None)"
        name, nans = self._sorted(argument)
        if not nans:
            return f"({name}[{0 if least else -1}] if {name} else None)"
        nan = self.source.const(math.nan, "nan")
        if least:
            return f"({name}[0] if {name} else {nan} if {nans} else None)"
        return f"({nan} if {nans} else {name}[-1] if {name} else None)"

    def _sorted(self, argument: ArgumentCells) -> tuple[str, str]:
        assert argument.expr is not None
        if argument.expr.type.name not in _FLOATING:
            return self._made(argument, "sorted", SortedList), ""
        return self._made(argument, "sorted float", SortedList), self._cell(argument, "nans")

    def _end(self, call: AggregateCall, argument: ArgumentCells, *, last: bool) -> str:
        if call.index is None and not self._once(call, argument) and (self.leaving is Eviction.NONE or call.ever):
            if last:
                return self._cell(argument, "last", "None")
            return self._unless_empty(argument, "first")
        name, in_order = self._held(call, argument)
        if call.index is not None:
            place = lower.value(self.scope, call.index)
            return f"{self.source.bind('_at', value_at_index)}({name}, {place}, {last})"
        if not in_order:
            walk = f"reversed({name}.values())" if last else f"{name}.values()"
            return f"(next(iter({walk})) if {name} else None)"
        return f"({name}[{-1 if last else 0}] if {name} else None)"

    def _once(self, call: AggregateCall, argument: ArgumentCells) -> bool:
        return self.joined and not call.ever and argument.stream is not None

    def _held(self, call: AggregateCall, argument: ArgumentCells) -> tuple[str, bool]:
        """Return the cell of the values in the order of entry, and whether it is a sequence (else by ordinal)."""
        if self._once(call, argument):
            return f"{self._made(argument, 'once', accumulators.DistinctJoinValues)}.values", False
        if self.leaving is Eviction.ARBITRARY:
            return self._made(argument, "by ordinal", self.by_ordinal), False
        if self.leaving is Eviction.FIFO:
            return self._made(argument, "deque", deque), True
        return self._cell(argument, "list", "[]"), True

    def _unless_empty(self, argument: ArgumentCells, kind: str) -> str:
        empty = self.source.bind("EMPTY", StateMarker.EMPTY)
        name = self._cell(argument, kind, empty)
        return f"({name} if {name} is not {empty} else None)"

    def _window(self, call: AggregateCall, argument: ArgumentCells) -> str:
        name, in_order = self._held(call, argument)
        return name if call.reference else f"([*{name}{'' if in_order else '.values()'}] or None)"

    def _nth(self, call: AggregateCall, argument: ArgumentCells) -> str:
        assert call.index is not None
        index = call.index.constant
        if self.leaving is Eviction.ARBITRARY:
            name = self._made(argument, "values by ordinal", self.by_ordinal)
            return f"{self.source.bind('_at', value_at_index)}({name}, {index}, True)"
        name = self._made(argument, "recent", deque, f"(), {_reach(self.calls, call)}")
        count = f"len({name})" if self.leaving is Eviction.NONE else self._number(argument)[0]
        return f"({name}[-1 - {index}] if {count} > {index} else None)"

    def _median(self, call: AggregateCall, argument: ArgumentCells) -> str:
        name, nans = self._sorted(argument)
        return f"{self.source.bind('_median', accumulators.median_value)}({name}, {nans or 0})"

    def _percentile(self, call: AggregateCall, argument: ArgumentCells) -> str:
        assert call.index is not None
        name, nans = self._sorted(argument)
        percent = lower.value(self.scope, call.index)
        return f"{self.source.bind('_percentile', accumulators.percentile_value)}({name}, {nans or 0}, {percent})"

    def _sketched_percentile(self, call: AggregateCall, argument: ArgumentCells) -> str:
        assert call.index is not None
        name = self._made(argument, "quantiles", QuantileSketch)
        return f"{name}.value({lower.value(self.scope, call.index)})"

    def _joined(self, call: AggregateCall, argument: ArgumentCells) -> str:
        assert call.index is not None
        name, in_order = self._held(call, argument)
        texts, between = f"{name}{'' if in_order else '.values()'}", lower.value(self.scope, call.index)
        return f"{self.source.bind('_joined', accumulators.joined_texts)}({texts}, {between})"

    def _spread(self, call: AggregateCall, argument: ArgumentCells, *, of: Literal["sample", "population"]) -> str:
        recovers = self.scope.compensated_sums
        accumulator = RecoveringStandardDeviation if recovers else StandardDeviation
        return f"{self._made(argument, 'spread', accumulator)}.{of}()"

    def _accumulated(self, call: AggregateCall, argument: ArgumentCells) -> str:
        options = ", ".join(f"{name}={self.source.const(value)}" for name, value in call.options)
        name = self._made(argument, call.name, ACCUMULATORS[call.name], options)
        return name if call.reference else f"{name}.value()"

    def _by(self, call: AggregateCall, argument: ArgumentCells, *, which: Literal["first", "last", "all"]) -> str:
        if call.ever:
            name = self._cell(argument, "bottom" if which == "first" else "top", "None")
            return f"({name}[1] if {name} is not None else None)"
        flags = ", ".join(str(descending) for _, descending in argument.criteria)
        if self._once(call, argument):
            name = self._made(argument, "ranked once", accumulators.DistinctJoinSortedEvents, flags)
        else:
            name = self._made(argument, "ranked", accumulators.SortedEvents, flags)
        if call.reference:
            return name
        return f"{name}.{which}()"

    def _rate(self, call: AggregateCall, argument: ArgumentCells) -> str:
        second = str(self.scope.second)
        period = call.args[-1]
        if call.has_period:
            self.reads_now = True
            interval = lower.value(self.scope, period)
            return f"{self._made(argument, 'arrivals', accumulators.ArrivalRate, f'{interval}, {second}')}.rate()"
        return f"{self._made(argument, 'flow', accumulators.AmountRate)}.rate({second})"

    def _supplied(self, call: AggregateCall, argument: ArgumentCells) -> str:
        user_class = call.args[-1]
        assert isinstance(user_class, x.UserClass)
        code = lower.value(self.scope, user_class)
        if self.leaving is not Eviction.NONE and not hasattr(self.scope.user_functions[user_class.name], "leave"):
            raise Refusal("no-leave", f"aggregate {user_class.name} has no method leave, but events leave its window")
        name = self._made(argument, "supplied", UserAggregate, f"{code}, {user_class.count}")
        return lower.declared_type_code(self.scope, f"{name}.value()", call.type)

    @property
    def risky(self) -> bool:
        """True if an update may leave a failure in the local ``broken``, to be raised when the delta is complete."""
        return any(argument.risky for argument in self.arguments)

    @property
    def lasting(self) -> bool:
        """True if a value depends on events that have left."""
        return any(call.ever or aggregate_row(call.name).remembers for call in self.calls)

    def fresh(self) -> str:
        return "[" + ", ".join(self.initial) + "]"

    def load(self, state: str) -> None:
        self._loaded = state
        if self.names:
            self.source.line(f"{', '.join(self.names)}{',' if len(self.names) == 1 else ''} = {state}")

    def store(self, state: str, begin: int = 0) -> None:
        """Write code that stores the assigned locals in the group's list, from index `begin`. Counts of nulls are
        stored where they change, if they were unpacked from that list.
        """
        assigned = set().union(*(argument.assigned for argument in self.arguments))
        if state == self._loaded:
            assigned.difference_update(argument.cells.get("nulls", "") for argument in self.arguments)
        for position, name in enumerate(self.names, begin):
            if name in assigned:
                self.source.line(f"{state}[{position}] = {name}")

    def enter(self, scope: CodeScope, ordinal: str | None = None) -> None:
        """Write code that adds the event of `scope`; `ordinal` is the code of its ordinal."""
        for argument in self.arguments:
            CellUpdate(argument, scope, self.leaving, True, ordinal, store=self._store_of_nulls(argument)).write()

    def leave(self, scope: CodeScope, ordinal: str | None = None) -> None:
        for argument in self.arguments if self.leaving is not Eviction.NONE else ():
            CellUpdate(argument, scope, self.leaving, False, ordinal, store=self._store_of_nulls(argument)).write()

    def _store_of_nulls(self, argument: ArgumentCells) -> str:
        name = argument.cells.get("nulls")
        if name is None or not self._loaded.isidentifier():
            return ""
        return f"{self._loaded}[{self.names.index(name)}] = {name}"


_Rule = Callable[[AggregateCodegen, AggregateCall, ArgumentCells], str]
_avg: _Rule = partial(AggregateCodegen._sum, mean=True)
_COUNTED = (AggregateCodegen._count, _avg)  # they need the number of values
_VALUES: dict[str, _Rule] = {
    "count": AggregateCodegen._count,
    "countever": lambda self, call, argument: self._cell(argument, "ever"),
    "sum": AggregateCodegen._sum,
    "avg": _avg,
    **dict.fromkeys(("min", "minever"), partial(AggregateCodegen._extreme, least=True)),
    **dict.fromkeys(("max", "maxever"), partial(AggregateCodegen._extreme, least=False)),
    "first": partial(AggregateCodegen._end, last=False),
    "last": partial(AggregateCodegen._end, last=True),
    "firstever": lambda self, call, argument: self._unless_empty(argument, "first value"),
    "lastever": lambda self, call, argument: self._cell(argument, "last value", "None"),
    "sorted": partial(AggregateCodegen._by, which="all"),
    **dict.fromkeys(("minby", "minbyever"), partial(AggregateCodegen._by, which="first")),
    **dict.fromkeys(("maxby", "maxbyever"), partial(AggregateCodegen._by, which="last")),
    "stddev": partial(AggregateCodegen._spread, of="sample"),
    "stddevpop": partial(AggregateCodegen._spread, of="population"),
    "window": AggregateCodegen._window,
    "nth": AggregateCodegen._nth,
    "median": AggregateCodegen._median,
    "percentile": AggregateCodegen._percentile,
    "percentile_approx": AggregateCodegen._sketched_percentile,
    "string_agg": AggregateCodegen._joined,
    "rate": AggregateCodegen._rate,
    "leaving": lambda self, call, argument: self._cell(argument, "gone", "False"),
    USER_AGGREGATE.name: AggregateCodegen._supplied,
}
_VALUES |= dict.fromkeys(ACCUMULATORS, AggregateCodegen._accumulated)
for _row in AGGREGATES.values():  # other spellings were rewritten before
    if _row.plain is None and _row.name not in _VALUES:
        raise TypeError(f"the row of aggregate {_row.name} has neither a value here nor an accumulator")
for _name in _VALUES:
    if _name not in AGGREGATES and _name != USER_AGGREGATE.name:
        raise TypeError(f"aggregate {_name} has no row in cepbook/lang/registry/aggregates.py")

_Identity = tuple[tuple[x.BoundExpr, ...], bool, x.BoundExpr | None, tuple[tuple[x.BoundExpr, bool], ...], bool]


_EVENTS: _Identity = ((), False, None, (), False)  # all of them


def _identity(call: AggregateCall) -> _Identity:
    distinct = call.distinct and aggregate_row(call.name).repeats
    return call.args, distinct, call.filter, call.criteria, call.ever and distinct


def _reach(calls: Sequence[AggregateCall], like: AggregateCall) -> int:
    same = [c.index for c in calls if c.name == like.name and _identity(c) == _identity(like)]
    indexes = [index.constant for index in same if index is not None]
    return 1 + max(index for index in indexes if isinstance(index, int))


def drop_idle_groups(
    groups: dict[Any, list[Any]], touched: int, now: int, age: float | None, every: float | None
) -> float:
    """Drop the groups that no event has touched for more than `age` (None: none); return the time of the next check."""
    if age is not None:
        for key in [key for key, cells in groups.items() if now - cells[touched] > age]:
            del groups[key]
    return now + (every or 0)


def value_at_index(
    values: Sequence[object] | OrderedDict[int, object] | accumulators.OrdinalMap, index: int | None, from_end: bool
) -> object:
    """Return the value at `index` from the first or last one; None beyond."""
    if index is None or not 0 <= index < len(values):
        return None
    if isinstance(values, accumulators.OrdinalMap):
        values = values.values()
    if isinstance(values, OrderedDict):
        walk = reversed(values.values()) if from_end else iter(values.values())
        return next(islice(walk, index, None))
    return values[-1 - index] if from_end else values[index]
