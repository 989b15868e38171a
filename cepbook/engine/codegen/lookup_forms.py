"""Finds the form in which arrays compute a statement whose values subqueries look up (`EnrichmentForm`), or the reason
why its events are processed one by one.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence

from cepbook.engine.codegen.join_forms import NO_ARRAYS, are_keys, filter_conditions, properties_of, window_stream_form
from cepbook.engine.codegen.kernel_forms import KernelOutputs, argument_form
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.access import KeyEquality
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.vectorized.kernel_form import ARRAY_TYPES, OutputForm
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.engine.vectorized.stream_forms import EnrichmentForm, LookupForm, PairForm, StreamForm
from cepbook.errors import Refusal
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan import expressions as x

FormOfSubquery = Callable[[Sequence[x.BoundExpr]], LookupForm] | None  # by the arguments of its `SubqueryRef`


def enrichment_form(
    steps: PhysicalPlan, subqueries: Sequence[FormOfSubquery], *, direct: bool, null_at_zero: bool
) -> EnrichmentForm | str:
    """Return the form of a statement with subqueries, or the reason why it has none. `direct` is
    `StatementCodegen.delivers_events`; `null_at_zero`: a division by zero is null.
    """
    try:
        return _form(steps, subqueries, direct=direct, null_at_zero=null_at_zero)
    except Refusal as refusal:
        return refusal.reason


def _form(
    steps: PhysicalPlan, subqueries: Sequence[FormOfSubquery], *, direct: bool, null_at_zero: bool
) -> EnrichmentForm:
    if not direct:
        raise NO_ARRAYS("not every event is delivered at once as one insert row")
    columns = [column.value for column in steps.projection.columns]
    tests = [e for condition in (steps.where, steps.having) for e in x.conjuncts(condition)]
    references = {reference.index: reference for reference in x.find(x.SubqueryRef, *columns, *tests)}
    if len(references) < len(subqueries):
        raise NO_ARRAYS("a filter reads a subquery")
    types = properties_of(0, *columns, *tests)
    lookups = tuple(form(references[number].args) for number, form in enumerate(subqueries) if form is not None)
    assert len(lookups) == len(subqueries)
    forms = _EventForms(types, lookups, null_at_zero=null_at_zero)
    return EnrichmentForm(
        StreamForm(filter_conditions(steps), types, "none"),
        lookups,
        tests=tuple(map(forms.condition, tests)),
        outputs=tuple(map(forms.value, columns)),
    )


def lookup_form(code: CodegenContext, args: Sequence[x.BoundExpr]) -> LookupForm:
    """Return the form of a subquery, whose parameters are `args`. `code` is the context of its generated code. Errors:
    Refusal if it has none.
    """
    steps, lookup = code.steps, code.steps.lookup
    assert lookup is not None
    path, subquery = lookup.access, lookup.subquery
    if lookup.shared or steps.reads_store:
        raise NO_ARRAYS("a subquery reads a named window or table")
    if path is None:
        raise NO_ARRAYS("a subquery reads nothing of the event")
    if not code.base.self_subselect_preeval:
        raise NO_ARRAYS("a subquery sees an event after the statement")
    tied = [key for key in path.keys if key.other.constant is None]
    constant = [key for key in path.keys if key.other.constant is not None]
    keys = tuple((_argument(key.other, args), key.own.property_of(0)) for key in tied if are_keys(key.own, key.other))
    if not tied or len(keys) < len(tied) or not all(map(all, keys)) or any(key.more for key in path.keys):
        raise NO_ARRAYS("no texts, whole numbers or booleans of the event and of the rows of a subquery must be equal")
    if len({key.nulls for key in tied}) > 1:
        raise NO_ARRAYS("null equals null in some keys of a subquery, and not in others")
    if steps.grouped or steps.having is not None or steps.projection.distinct or steps.reads_prev or code.local:
        raise NO_ARRAYS("a subquery has a clause that is not computed over arrays")
    columns = [column.value for column in steps.projection.columns]
    calls = [e for call in steps.calls for e in call.args]
    types = properties_of(0, *columns, *calls, *path.rest, *(key.own for key in path.keys))
    pairs = _LookupForms(types, args, null_at_zero=code.base.division_by_zero_null)
    if steps.aggregate is not None and subquery.form == "value":
        if x.find(x.SubqueryParameter, *columns):
            raise pairs.refusal(columns[0])
        result = KernelOutputs(code, steps, {}).value(columns[0])
    elif steps.aggregate is not None:
        raise NO_ARRAYS("a condition on aggregates of a subquery is not computed over arrays")
    elif subquery.form == "exists" or lookup.member:
        result = OutputForm("contains" if lookup.member else "exists")
    elif subquery.form != "value":
        raise NO_ARRAYS("a subquery returns several values, or is compared in a way that arrays do not compute")
    else:
        result = pairs.matched(columns[0])
    return LookupForm(
        window_stream_form(steps, code.items, types, [own for _, own in keys]),
        PairForm(keys, tied[0].nulls, (*map(pairs.equality, constant), *map(pairs.condition, path.rest))),
        result,
        tuple(argument_form(code, argument, types) for argument in code.aggregates.arguments),
        tuple(literal_eval(cell) for cell in code.aggregates.initial),
    )


def _argument(parameter: x.BoundExpr, args: Sequence[x.BoundExpr]) -> str:
    """Return the property of the event that a value within a subquery is; empty for all others."""
    return "" if parameter.parameter_index is None else args[parameter.parameter_index].property_of(0)


class _LookupForms(OutputForms):
    """The forms of values of an event, number 0, and a row of a subquery, number 1."""

    def __init__(self, types: Mapping[str, str], args: Sequence[x.BoundExpr], *, null_at_zero: bool) -> None:
        super().__init__(null_at_zero=null_at_zero)
        self._types = types
        self._args = args

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        own = e.property_of(0)
        if own in self._types:
            return OutputForm("matched", own, 1)
        name = _argument(e, self._args)
        return OutputForm("matched", name, 0) if name and e.type.name in ARRAY_TYPES else None

    def matched(self, e: x.BoundExpr) -> OutputForm:
        """Return the form of a property of a row. Errors: Refusal for any other value."""
        form = self.operand(e)
        if form is None or form.number != 1:
            raise self.refusal(e)
        return form

    def equality(self, key: KeyEquality) -> OutputForm:
        """Return the form of the equality of a property of a row and a constant. Errors: Refusal if it has none."""
        form = self.comparison("=", key.own, key.other)
        if form is None:
            raise self.refusal(key.own)
        return form

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return NO_ARRAYS("a value or a condition of a subquery is not computed over arrays")


class _EventForms(OutputForms):
    """The forms of values of an event, with properties of `types`."""

    def __init__(self, types: Mapping[str, str], lookups: Sequence[LookupForm], *, null_at_zero: bool) -> None:
        super().__init__(null_at_zero=null_at_zero)
        self._types = types
        self._lookups = lookups

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        if e.property_of(0) in self._types:
            return OutputForm("matched", e.property_of(0), 0)
        lookup = self._lookup(e)
        if lookup is None or lookup.result.kind in ("exists", "contains"):
            return None
        return OutputForm("looked_up", number=e.subquery_number or 0)

    def condition(self, e: x.BoundExpr) -> OutputForm:
        """Return the form of a condition; that there is a row is the number 1. ``not in`` is unknown for null."""
        operator, sides = e.predicate or ("", ())
        negated = operator == "not"
        subquery = sides[0] if negated else e
        lookup = self._lookup(subquery)
        if lookup is None or lookup.result.kind not in (("exists",) if negated else ("exists", "contains")):
            return super().condition(e)
        exists = OutputForm("looked_up", number=subquery.subquery_number or 0)
        return OutputForm("<=" if negated else ">", operands=(exists, OutputForm("constant")))

    def _lookup(self, e: x.BoundExpr) -> LookupForm | None:
        return None if e.subquery_number is None else self._lookups[e.subquery_number]

    def inexact(self, e: x.BoundExpr) -> bool:
        """Counts are small, and sums are checked."""
        lookup = self._lookup(e)
        checked = lookup is not None and lookup.result.kind in ("count", "total", "mean")
        return not checked and super().inexact(e)

    def refusal(self, e: x.BoundExpr) -> Refusal:
        subject = "an expression with a subquery" if x.find(x.SubqueryRef, e) else show_expr(e)
        return NO_ARRAYS(f"{subject} is not computed over arrays")
