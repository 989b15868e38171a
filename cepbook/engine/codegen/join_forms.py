"""Finds the form in which arrays compute a join (`JoinForm`), or the reason why its events are processed one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from cepbook.engine.codegen.kernel_forms import ITEM_COLUMNS, window_form
from cepbook.engine.fragments.event_layout import EventLayout, JoinedLayout
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.subscriptions.filter_index import IndexCondition, index_conditions
from cepbook.engine.vectorized.kernel_form import ARRAY_TYPES, KEY_TYPES, OutputForm
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.engine.vectorized.stream_forms import JoinForm, PairForm, StreamForm
from cepbook.errors import Refusal
from cepbook.lang.explain.expressions import display_names, show_expr, source_names
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import source_of
from cepbook.lang.types import BITS

NO_ARRAYS = partial(Refusal, "no-arrays")  # of a statement whose events are processed one by one


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
        raise NO_ARRAYS("not every pair of events is delivered at once as one insert row")
    if len(steps.inputs) != 2 or steps.context is not None:
        raise NO_ARRAYS("it joins more than two streams, or is in a context")
    if all(stream.unidirectional for stream in join.node.inputs):
        raise NO_ARRAYS("both streams are unidirectional")
    kind, on = join.node.inputs[1].kind, join.node.inputs[1].on
    conditions = [e for condition in (join.conditions if join.inner else (on,)) for e in x.conjuncts(condition)]
    tests = [e for condition in (steps.where, steps.having) for e in x.conjuncts(condition)]
    by_condition = [(e, _key(e)) for e in conditions]
    keys = tuple(key for _, key in by_condition if key is not None)
    if not keys:
        raise NO_ARRAYS("no texts, whole numbers or booleans of the two streams must be equal")
    own_keys = [*zip(*keys, strict=True)]
    left, right = (_window(steps, items, number, own_keys[number]) for number in (0, 1))
    forms = _PairForms((left.types, right.types), null_at_zero=null_at_zero)
    others = tuple(forms.condition(e) for e, key in by_condition if key is None)
    return JoinForm(
        (left, right),
        PairForm(keys, not join.inner, others),
        active=(join.active[0], join.active[1]),
        alone=(kind in ("left", "full"), kind in ("right", "full")),
        tests=tuple(map(forms.condition, tests)),
        outputs=tuple(forms.value(column.value) for column in steps.projection.columns),
    )


def _window(steps: PhysicalPlan, items: JoinedLayout, number: int, keys: Sequence[str]) -> StreamForm:
    plan, layout, join = steps.inputs[number], items.inputs[number], steps.join
    assert join is not None
    if plan.priors or join.transient[number]:
        raise NO_ARRAYS("it reads more of a stream than one data window")
    columns = [column.value for column in steps.projection.columns]
    on = [stream.on for stream in join.node.inputs]
    properties = properties_of(number, *columns, *join.conditions, *on, steps.where, steps.having)
    form = window_stream_form(plan, layout, properties, keys)
    if form.window == "none" and not join.node.inputs[number].unidirectional:
        raise NO_ARRAYS("a stream has no data window")
    return form


def window_stream_form(
    plan: PhysicalPlan, layout: EventLayout, types: Mapping[str, str], keys: Sequence[str]
) -> StreamForm:
    """Return the form of a stream with at most one data window, whose events are looked up by the properties `keys`.
    `types` are those of the properties that are read. Errors: Refusal if there is none.
    """
    if len(plan.stages) != 1 or plan.watched:
        raise NO_ARRAYS("it reads more of a stream than one data window")
    window, limit = window_form(plan.stages[0], lazy=True)
    named = ITEM_COLUMNS | {str(place): name for name, place in layout.positions.items()}
    if window == "latest":
        unique = [e.property_name for operator in plan.stages[0].windows for e in operator.args]
        if len(unique) != 1 or set(unique) != set(keys):
            raise NO_ARRAYS("the key of `unique` is not the one that is looked up")
        named["w0"] = keys[0]
    columns = tuple(named.get(component, "") for component in layout.parts)
    if not {*types, *ITEM_COLUMNS.values()}.issuperset(columns):
        raise NO_ARRAYS("it keeps more of each event than numbers, booleans and strings")
    return StreamForm(filter_conditions(plan), types, window, limit, columns)


def filter_conditions(plan: PhysicalPlan) -> tuple[IndexCondition, ...]:
    """Return the conditions of the filter of a stream. Errors: Refusal if columns cannot evaluate them."""
    conditions = [index_conditions(e) for e in x.conjuncts(plan.source.filter)]
    if not all(conditions):
        raise NO_ARRAYS("a filter is none that columns evaluate")
    return tuple(condition for own in conditions for condition in own)


def properties_of(number: int, *exprs: x.BoundExpr | None) -> dict[str, str]:
    """Return the types of the properties of a stream that expressions read. Errors: Refusal if one is for no array."""
    types = {prop.name: prop.type.name for prop in x.find(x.Prop, *exprs) if prop.stream == number}
    if not set(ARRAY_TYPES).issuperset(types.values()):
        raise NO_ARRAYS("it reads values that are no numbers, booleans or strings")
    return types


def _key(e: x.BoundExpr) -> tuple[str, str] | None:
    """Return the properties of the two streams that a condition equates; None if it says something else."""
    operator, sides = e.predicate or ("", ())
    if operator != "=" or not are_keys(*sides):
        return None
    left, right = sides
    pairs = [(a.property_of(0), b.property_of(1)) for a, b in ((left, right), (right, left))]
    return next(((a, b) for a, b in pairs if a and b), None)


def are_keys(left: x.BoundExpr, right: x.BoundExpr) -> bool:
    """Return True if arrays can tell whether two values are equal."""
    names = left.type.name, right.type.name
    return KEY_TYPES.issuperset(names) and (names[0] in BITS) == (names[1] in BITS)


class _PairForms(OutputForms):
    """The forms of values of a pair of events; `types` are those of their properties, by stream."""

    def __init__(self, types: Sequence[Mapping[str, str]], *, null_at_zero: bool) -> None:
        super().__init__(null_at_zero=null_at_zero)
        self._types = types

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        for number, types in enumerate(self._types):
            name = e.property_of(number)
            if name in types:
                return OutputForm("matched", name, number)
        return None

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return NO_ARRAYS(f"{show_expr(e)} is not computed over arrays")
