"""Finds the form in which arrays compute a join (`JoinForm`), or the reason why its events are processed one by one."""

from __future__ import annotations

from functools import partial

from cepbook.engine.codegen.kernel_forms import ITEM_COLUMNS, window_form
from cepbook.engine.fragments.event_layout import JoinedLayout
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.subscriptions.filter_index import index_conditions
from cepbook.engine.vectorized.join_form import JoinForm, JoinStreamForm
from cepbook.engine.vectorized.kernel_form import ARRAY_TYPES, KEY_TYPES, OutputForm
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.errors import Refusal
from cepbook.lang.explain.expressions import display_names, show_expr, source_names
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import source_of
from cepbook.lang.types import BITS

_NO_ARRAYS = partial(Refusal, "no-arrays")  # of a join whose events are processed one by one


def join_form(steps: PhysicalPlan, items: JoinedLayout, *, direct: bool, null_at_zero: bool) -> JoinForm | str:
    """Return the form of a join, or the reason why it has none. `direct` is `StatementCodegen.delivers_pairs`;
    `null_at_zero`: a division by zero is null.
    """
    assert steps.join is not None
    names = source_names([source_of(stream.stream) for stream in steps.join.node.inputs])
    with display_names(streams=names):
        try:
            return _form(steps, items, direct=direct, null_at_zero=null_at_zero)
        except Refusal as refusal:
            return refusal.reason


def _form(steps: PhysicalPlan, items: JoinedLayout, *, direct: bool, null_at_zero: bool) -> JoinForm:
    join = steps.join
    assert join is not None
    if not direct:
        raise _NO_ARRAYS("not every pair of events is delivered at once as one insert row")
    if len(steps.inputs) != 2 or steps.context is not None:
        raise _NO_ARRAYS("it joins more than two streams, or is in a context")
    if all(stream.unidirectional for stream in join.node.inputs):
        raise _NO_ARRAYS("both streams are unidirectional")
    kind, on = join.node.inputs[1].kind, join.node.inputs[1].on
    conditions = [e for condition in (join.conditions if join.inner else (on,)) for e in x.conjuncts(condition)]
    tests = [e for condition in (steps.where, steps.having) for e in x.conjuncts(condition)]
    by_condition = [(e, _key(e)) for e in conditions]
    keys = tuple(key for _, key in by_condition if key is not None)
    if not keys:
        raise _NO_ARRAYS("no texts, whole numbers or booleans of the two streams must be equal")
    own_keys = [*zip(*keys, strict=True)]
    alone = kind in ("left", "full"), kind in ("right", "full")
    left, right = (_stream(steps, items, number, own_keys[number], alone=alone[number]) for number in (0, 1))
    forms = _PairForms((left, right), null_at_zero=null_at_zero)
    others = tuple(forms.condition(e) for e, key in by_condition if key is None)
    after = tuple(map(forms.condition, tests))
    outputs = tuple(forms.value(column.value) for column in steps.projection.columns)
    return JoinForm((left, right), keys, not join.inner, others, after, outputs)


def _stream(
    steps: PhysicalPlan, items: JoinedLayout, number: int, keys: tuple[str, ...], *, alone: bool
) -> JoinStreamForm:
    plan, layout, join = steps.inputs[number], items.inputs[number], steps.join
    assert join is not None
    if len(plan.stages) != 1 or plan.priors or plan.watched or join.transient[number]:
        raise _NO_ARRAYS("it reads more of a stream than one data window")
    window, limit = window_form(plan.stages[0], lazy=True)
    named = ITEM_COLUMNS | {str(place): name for name, place in layout.positions.items()}
    if window == "none" and not join.node.inputs[number].unidirectional:
        raise _NO_ARRAYS("a stream has no data window")
    if window == "latest":
        unique = [e.property_name for operator in plan.stages[0].windows for e in operator.args]
        if len(unique) != 1 or set(unique) != set(keys):
            raise _NO_ARRAYS("the key of `unique` is not that of the join")
        named["w0"] = keys[0]
    types = {prop.name: prop.type.name for prop in _properties(steps, number)}
    if not set(ARRAY_TYPES).issuperset(types.values()):
        raise _NO_ARRAYS("it reads values that are no numbers, booleans or strings")
    columns = tuple(named.get(component, "") for component in layout.parts)
    if not {*types, *ITEM_COLUMNS.values()}.issuperset(columns):
        raise _NO_ARRAYS("it keeps more of each event than numbers, booleans and strings")
    conditions = [index_conditions(e) for e in x.conjuncts(plan.source.filter)]
    if not all(conditions):
        raise _NO_ARRAYS("a filter is none that columns evaluate")
    flat = tuple(condition for own in conditions for condition in own)
    return JoinStreamForm(flat, types, window, limit, columns, join.active[number], alone)


def _properties(steps: PhysicalPlan, number: int) -> list[x.Prop]:
    """Return the properties of a stream that rows and conditions read."""
    assert steps.join is not None
    columns = [column.value for column in steps.projection.columns]
    on = [stream.on for stream in steps.join.node.inputs]
    exprs = [e for e in (*columns, *steps.join.conditions, *on, steps.where, steps.having) if e is not None]
    return [prop for prop in x.find(x.Prop, *exprs) if prop.stream == number]


def _key(e: x.BoundExpr) -> tuple[str, str] | None:
    """Return the properties of the two streams that a condition equates; None if it says something else."""
    operator, sides = e.predicate or ("", ())
    if operator != "=" or not KEY_TYPES.issuperset(side.type.name for side in sides):
        return None
    left, right = sides
    if (left.type.name in BITS) != (right.type.name in BITS):
        return None
    pairs = [(a.property_of(0), b.property_of(1)) for a, b in ((left, right), (right, left))]
    return next(((a, b) for a, b in pairs if a and b), None)


class _PairForms(OutputForms):
    """The forms of values of a pair of events."""

    def __init__(self, streams: tuple[JoinStreamForm, JoinStreamForm], *, null_at_zero: bool) -> None:
        super().__init__(null_at_zero=null_at_zero)
        self._streams = streams

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        for number, stream in enumerate(self._streams):
            name = e.property_of(number)
            if name in stream.types:
                return OutputForm("matched", name, number)
        return None

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return _NO_ARRAYS(f"{show_expr(e)} is not computed over arrays")
