"""Finds the form in which kernels run a statement (`KernelForm`), or the reason why rows are processed one by one."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Literal

from cepbook.engine.aggregates.cells import ArgumentCells
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.operators import Eviction, WindowOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.vectorized.kernel_form import (
    ARRAY_TYPES,
    ARRIVAL,
    GROUP,
    KEPT,
    KEY_TYPES,
    NUMBER_TYPES,
    ORDINAL,
    ArgumentForm,
    KernelForm,
    OutputForm,
)
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.engine.windows import WINDOW_FORMS
from cepbook.errors import Refusal
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.explain.statements import show_call
from cepbook.lang.plan import expressions as x
from cepbook.lang.types import BITS

_Kind = Literal["count", "total", "mean", "least", "greatest"]
_KINDS: dict[str, _Kind] = {"count": "count", "sum": "total", "avg": "mean", "min": "least", "max": "greatest"}
_NUMBER_CELLS = {  # the cells of numbers by kind (see `CELL_KINDS`), and the names that they have here
    "s": "total",
    "least": "least",
    "greatest": "greatest",
    "least float": "least",
    "greatest float": "greatest",
}
_QUEUES = {"rising": "least", "rising float": "least", "falling": "greatest", "falling float": "greatest"}


ITEM_COLUMNS = {"t": ARRIVAL, "o": ORDINAL}  # by part of an item (see `EventLayout`)
_NO_KERNEL = partial(Refusal, "no-kernel")  # of a statement whose rows are processed one by one


def kernel_form(code: CodegenContext, steps: PhysicalPlan, *, inserts_alone: bool, unbound: bool) -> KernelForm | str:
    """Return the form of a statement, or the reason why kernels cannot run it. `code` may be that of a statement that
    differs in constants, `inserts_alone` is that of its `StatementCodegen`. `unbound`: without a data window the last
    row can be iterated.
    """
    if unbound:
        return "its last row is kept for iteration (iterable unbound)"
    try:
        return _form(code, steps, inserts_alone=inserts_alone)
    except Refusal as refusal:
        return refusal.reason


def _form(code: CodegenContext, steps: PhysicalPlan, *, inserts_alone: bool) -> KernelForm:
    if not inserts_alone:
        raise _NO_KERNEL("not every event delivers exactly one row")
    if steps.into is not None:
        raise _NO_KERNEL("its aggregates are in a table")
    if len(steps.stages) != 1 or steps.subqueries or steps.levels or code.local or steps.reclaims or steps.watched:
        raise _NO_KERNEL("it has a clause without a kernel")
    (stage,) = steps.stages
    columns = [column.value.of_group(steps.keys) for column in steps.projection.columns]
    having = () if steps.having is None else (steps.having,)
    calls = (e for call in steps.calls for e in call.args)
    types = _types([*columns, *steps.keys, *steps.group_keys, *calls, *having])
    keys = _keys(steps, types)
    window, limit = window_form(stage, lazy=steps.lazy)
    if window == "latest":
        raise _NO_KERNEL("`unique` has no kernel")
    if steps.context is not None and (window == "period" or steps.grouped or steps.group_keys):
        raise _NO_KERNEL("its partitions have time windows or groups")
    named = ITEM_COLUMNS | {str(place): name for name, place in code.items.positions.items()}
    named |= {f"w{number}": GROUP for number in range(stage.operands)}  # no window but groupwin has one
    items = tuple(named.get(part, "") for part in code.items.parts)
    if not types.keys() | {ARRIVAL, ORDINAL, GROUP} >= set(items):
        raise _NO_KERNEL("it keeps more of each event than numbers, booleans and strings")
    arguments = tuple(argument_form(code, argument, types) for argument in code.aggregates.arguments)
    queues = {place for argument in arguments for place in argument.queues.values()}
    outputs = KernelOutputs(code, steps, types)
    return KernelForm(
        types=types,
        window=window,
        limit=limit,
        divided=window != "none" and _divides(steps),
        items=items,
        bare=code.items.bare,
        keys=keys,
        grouped=steps.grouped or bool(steps.context is not None and code.aggregates.initial),
        keeps_groups=steps.eviction is Eviction.NONE or steps.context is not None,
        cells=tuple(None if at in queues else literal_eval(cell) for at, cell in enumerate(code.aggregates.initial)),
        arguments=arguments,
        outputs=tuple(map(outputs.value, columns)),
        having=None if steps.having is None else outputs.condition(steps.having),
    )


def _keys(steps: PhysicalPlan, types: dict[str, str]) -> tuple[str, ...]:
    """Return the properties that tell groups apart, those of the window and those of the aggregates."""
    if steps.keys and steps.group_keys and steps.keys != steps.group_keys:
        raise _NO_KERNEL("window and aggregates differ in their groups")
    names = [str(e.property_name) for e in steps.keys or steps.group_keys]
    if any(types.get(name) not in KEY_TYPES for name in names):
        raise _NO_KERNEL("not all keys of groups are texts, whole numbers or booleans")
    return tuple(names)


def _types(exprs: Iterable[x.BoundExpr]) -> dict[str, str]:
    types = {e.property_name: e.type.name for root in exprs for e in x.walk(root) if e.property_name}
    if unstored := [name for name, of in types.items() if of not in ARRAY_TYPES or name in (ARRIVAL, ORDINAL, GROUP)]:
        raise _NO_KERNEL(f"`{unstored[0]}` is no number, boolean or string")
    return types


def window_form(stage: WindowOperator, *, lazy: bool) -> tuple[Literal["none", "newest", "period", "latest"], int]:
    """Return how arrays find what leaves a window (see `WindowCodegen`), and its limit, a number of events or a period.
    With `lazy` nobody sees when rows expire.
    """
    windows = [window for window in stage.windows if not window.row.grouping]
    if not windows and stage.groups is None:
        return "none", 0
    if len(windows) != 1 or stage.union or any(window.options or window.criteria for window in stage.windows):
        raise _NO_KERNEL("its windows have no kernel")
    (window,) = windows
    kernel = WINDOW_FORMS[window.name].kernel
    if kernel == "latest":
        return kernel, 1
    if kernel == "newest":
        limit = window.args[0].constant if window.args else KEPT
    else:
        limit = window.args[0].constant_millis if kernel and lazy and stage.groups is None else None
    if not (kernel and isinstance(limit, int) and limit <= KEPT):
        raise _NO_KERNEL(f"`{window.name}` has no kernel")
    return kernel, limit


def _divides(steps: PhysicalPlan) -> bool:
    """Return True if a window has rows of its own for each group or partition."""
    return bool(steps.group_keys) or steps.context is not None


def argument_form(code: CodegenContext, argument: ArgumentCells, types: Mapping[str, str]) -> ArgumentForm:
    """Return the form of an argument of aggregates. Errors: Refusal if there is none."""
    places = {kind: code.aggregates.names.index(cell) for kind, cell in argument.cells.items()}
    names = [e.property_name for e in argument.exprs]
    typed = all(types.get(name) in NUMBER_TYPES for name in names)
    known = places.keys() <= {"n", "nulls", *_NUMBER_CELLS, *_QUEUES}
    if not (typed and known) or argument.filter or argument.criteria or argument.risky:
        raise _NO_KERNEL(f"the aggregate of {', '.join(map(show_expr, argument.exprs)) or 'all events'} has no kernel")
    of = types[names[0]] if names else "long"
    bits = max(32, BITS[of]) if of in BITS else 0
    numbers, queues = (
        {names_of_kinds[kind]: place for kind, place in places.items() if kind in names_of_kinds}
        for names_of_kinds in (_NUMBER_CELLS, _QUEUES)
    )
    return ArgumentForm(names[0] if names else None, places.get("n"), places.get("nulls"), numbers, queues, bits)


class KernelOutputs(OutputForms):
    """The forms of values of a statement, which reads properties of `types`."""

    def __init__(self, code: CodegenContext, steps: PhysicalPlan, types: Mapping[str, str]) -> None:
        super().__init__(null_at_zero=code.base.division_by_zero_null)
        self._code = code
        self._steps = steps
        self._types = types

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        steps, types = self._steps, self._types
        e = e.of_group(steps.keys)
        if e.property_name in types:
            return OutputForm("property", e.property_name)
        if e.context_property and e.type.name in KEY_TYPES:
            return OutputForm("context", e.context_property)
        if e.aggregate_number is not None:
            call, aggregates = steps.calls[e.aggregate_number], self._code.aggregates
            if call.name in _KINDS:
                return OutputForm(_KINDS[call.name], number=aggregates.arguments.index(aggregates.argument_of(call)))
        if e.previous_value is not None:
            value, distance = e.previous_value
            if value.property_name in types and (distance == 1 or not _divides(steps)):
                return OutputForm("previous", value.property_name, distance)
        return None

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return _NO_KERNEL(f"{show_expr(e, list(map(show_call, self._steps.calls)))} has no kernel")

    def inexact(self, e: x.BoundExpr) -> bool:
        """Counts are small, and sums are checked."""
        kind = None if e.aggregate_number is None else _KINDS.get(self._steps.calls[e.aggregate_number].name)
        return kind in (None, "least", "greatest") and super().inexact(e)
