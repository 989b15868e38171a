"""Finds the form in which arrays evaluate the conditions of a `match_recognize`, or the reason for none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cepbook.engine.recognize.row_aggregates import row_aggregate
from cepbook.engine.subscriptions.filter_index import IndexCondition, index_conditions
from cepbook.engine.vectorized.kernel_form import KEY_TYPES, NUMBER_TYPES, OutputForm
from cepbook.engine.vectorized.output_forms import OutputForms
from cepbook.engine.vectorized.recognition_form import MeasureForm, RecognitionForm, RowTest
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.relational import CURRENT_ROW, MATCHED_ROWS, Recognition
from cepbook.lang.types import BITS

_MOST_VARIABLES = 8  # the states of the automaton have a transition for each choice of them
_IS_FIRST = {"first": True, "last": False}  # of aggregates that pick a row
_NO_ARRAYS = partial(Refusal, "no-arrays")  # of a `match_recognize` whose rows are processed one by one


def recognition_form(
    node: Recognition, back: int, *, enters_rows: bool, null_at_zero: bool
) -> RecognitionForm | str:
    """Return the form of a `match_recognize` whose conditions read up to `back` rows before the row, or the reason why
    it has none. `enters_rows` is that of its `RecognizeCodegen`; `null_at_zero`: a division by zero is null.
    """
    if not enters_rows:
        return "rows leave, or more is reported than the earliest match at once"
    if len(node.variables) > _MOST_VARIABLES:
        return "it has too many variables"
    try:
        forms = _RowForms(null_at_zero=null_at_zero)
        keys = tuple(map(forms.key, node.keys))
        admits = forms.test(node.predicate, "the where clause")
        variables = tuple(forms.test(v.condition, f"the condition of {v.name}") for v in node.variables)
    except Refusal as refusal:
        return refusal.reason
    names = [variable.name for variable in node.variables]
    measures = {column.name: _measure(column.value, names) for column in node.measures}
    known_measures = {name: form for name, form in measures.items() if form is not None}
    if len(known_measures) < len(measures):  # the others may fail, so that a match has no row
        known_measures = {}
    return RecognitionForm(forms.types, keys, admits, variables, back, known_measures)


def _measure(e: x.BoundExpr, names: Sequence[str]) -> MeasureForm | None:
    """Return the form of a measure; None if rows must be made for it. `names` are those of the variables."""
    if e.row_aggregate is not None:
        aggregate, distinct, rows, value = e.row_aggregate
        variable, name = rows.property_of(MATCHED_ROWS).removesuffix("[]"), value.property_of(CURRENT_ROW)
        fold = None if aggregate in _IS_FIRST and not distinct else row_aggregate(aggregate, e.type, distinct)
        first = _IS_FIRST.get(aggregate, False)
        return MeasureForm(names.index(variable), name, first, fold) if name else None
    member = e.tag_member(MATCHED_ROWS)
    return None if member is None else MeasureForm(names.index(member[0]), member[1])


class _RowForms(OutputForms):
    """The forms of conditions of a row. `types` collects those of the properties that they compute with."""

    def __init__(self, *, null_at_zero: bool) -> None:
        super().__init__(null_at_zero=null_at_zero)
        self.types: dict[str, str] = {}
        self._condition = ""  # that a form is looked for, in words

    def key(self, e: x.BoundExpr) -> str:
        """Return the property that a key of `partition by` is."""
        if not e.property_name or e.type.name not in KEY_TYPES:
            raise _NO_ARRAYS("not all keys of its partitions are texts, whole numbers or booleans")
        self.types[e.property_name] = e.type.name
        return e.property_name

    def test(self, condition: x.BoundExpr | None, name: str) -> RowTest:
        """Return the test of a condition; `name` says to people which one it is."""
        self._condition = name
        plain, computed = list[IndexCondition](), list[OutputForm]()
        for e in x.conjuncts(condition):
            if any(prop.stream == MATCHED_ROWS for prop in x.find(x.Prop, e)):
                raise _NO_ARRAYS(f"{name} reads other rows of the match")
            conditions = index_conditions(e)
            whole = all(prop.type.name in BITS for prop in x.find(x.Prop, e))
            if not conditions or (whole and any(isinstance(v, float) for c in conditions for v in c.values)):
                computed.append(self.condition(e))  # a column of whole numbers does not compare itself with a fraction
            else:
                plain += conditions
        return RowTest(tuple(plain), tuple(computed))

    def operand(self, e: x.BoundExpr) -> OutputForm | None:
        value, distance = e.earlier_value or (e, 0)
        name = value.property_of(CURRENT_ROW)
        if not name or e.type.name not in NUMBER_TYPES:
            return None
        self.types[name] = e.type.name
        return OutputForm("previous" if distance else "property", name, distance)

    def refusal(self, e: x.BoundExpr) -> Refusal:
        return _NO_ARRAYS(f"{self._condition} is none that arrays evaluate")
