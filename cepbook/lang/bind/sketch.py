"""The column ``countMinSketch({epsOfTotalCount: 0.001, confidence: 0.99, seed: 1, topk: 10})`` of a table.

Esper reference, section "Approximation Aggregation Functions", "Count-Min Sketch".
"""

from __future__ import annotations

from cepbook.lang import types as t
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import ModuleScope, Scope, did_you_mean
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast

_SKETCH = AGGREGATES["countminsketchadd"]

# Of each option the parameter of the sketch, and whether it is a part of one; others are numbers above 0
_OPTIONS = {
    "epsOfTotalCount": ("epsilon", True),
    "confidence": ("confidence", True),
    "seed": ("seed", False),
    "topk": ("most", False),
}


def is_sketch(column: ast.ColumnDef) -> bool:
    """Whether a column of a table is one."""
    return column.aggregate is not None and column.type_name.lower() == _SKETCH.column.lower()


def bind_sketch(column: ast.ColumnDef, module: ModuleScope) -> AggregateCall:
    """The aggregate of the column, which takes strings. Raises Refused (reported)."""
    assert isinstance(column.aggregate, ast.Chain)
    (step,) = column.aggregate.steps
    if step.args or step.wildcard or step.distinct:
        fact, hint = "`countMinSketch` takes options", "such as countMinSketch({topk: 10})"
        module.problems.fail("wrong-parameter", fact, step.span, hint)
    options: list[tuple[str, float | int]] = []
    for name, values in step.named:
        if name not in _OPTIONS:
            fact = f"`countMinSketch` has no option `{name}`"
            module.problems.fail("wrong-parameter", fact, step.span, did_you_mean(name, _OPTIONS))
        parameter, is_part = _OPTIONS[name]
        bound = fold_expr(bind_expr(values[0], Scope(module, no_aggregates="an option")))
        value = bound.value if isinstance(bound, x.Const) else None
        fits = 0 < value < 1 if is_part and isinstance(value, float) else not is_part and isinstance(value, int)
        if not fits or value is True or (name == "topk" and isinstance(value, int) and value < 1):
            wanted = "a number between 0 and 1" if is_part else "a whole number above 0"
            wanted = "a whole number" if name == "seed" else wanted
            module.problems.fail("wrong-parameter", f"`{name}` must be {wanted}", values[0].span)
        assert isinstance(value, int | float)
        options.append((parameter, value))
    strings = (x.Const(t.STRING, None, span=step.span),)
    return AggregateCall(_SKETCH.name, strings, t.LONG, ever=True, options=tuple(options), span=step.span)
