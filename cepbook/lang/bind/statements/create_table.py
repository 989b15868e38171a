"""``create table`` (Esper reference, chapter Named Windows and Tables), also with a count-min sketch as a column.

``countMinSketch({epsOfTotalCount: 0.001, confidence: 0.99, seed: 1, topk: 10})``: Esper reference, section
"Approximation Aggregation Functions", "Count-Min Sketch".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cepbook.errors import did_you_mean
from cepbook.lang import types as t
from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.expressions.expression import bind_expr
from cepbook.lang.bind.scope import (
    ERROR,
    AlreadyReported,
    ModuleScope,
    Scope,
    ScopeStream,
    builtin_type,
    resolve_context,
)
from cepbook.lang.bind.statements.create_schema import bind_schema_columns
from cepbook.lang.bind.statements.create_window import check_name_is_free
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as plan
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.plan.nodes import AggregateCall
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.rewrite.fold_constants import fold_expr
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes
from cepbook.lang.types import Type


def bind_create_table(node: ast.CreateTable, heading: Heading, module: ModuleScope) -> plan.StatementPlan | None:
    """Return the statement with its table entered into the module's catalog, or None if it was reported."""
    resolve_context(node.context, node.span, module)
    known = check_name_is_free(node.name, node, module)
    before = len(module.problems.reported)
    calls: dict[str, plan.AggregateCall] = {}
    properties: dict[str, Type] = {}
    for column in node.columns:
        if column.name in properties:
            module.report("duplicate-name", f"column `{column.name}` occurs twice", column.span)
            continue
        if column.aggregate is None:
            bind_schema_columns((replace(column, primary_key=False),), properties, module)
            key = properties.get(column.name)
            if column.primary_key and key is not None and key.event is not None:
                fact = f"the key `{column.name}` is an event, which has no value to look a row up by"
                module.wrong(fact, column.span, "take its properties as keys")
            continue
        try:
            call = _declared(column, module)
        except AlreadyReported:
            continue
        calls[column.name] = call
        properties[column.name] = call.type
    keys = tuple(column.name for column in node.columns if column.primary_key)
    if len(module.problems.reported) > before or not known:
        module.rejected_names.add(node.name)
        return None
    event_type = EventType(node.name, properties)
    texts = {c.name: c.aggregate for c in node.columns if c.aggregate is not None}
    store = StoreType(node.name, "table", node.context, None, keys, calls, texts)
    module.catalog.event_types[node.name] = event_type
    module.catalog.stores[node.name] = store
    module.provides["event type", node.name] = None
    return plan.CreateTableStatement(
        store=store,
        output_type=event_type,
        context=node.context,
        priority=heading.priority,
        **heading.fields(node.span, module),
    )


def _declared(column: ast.ColumnDef, module: ModuleScope) -> plan.AggregateCall:
    """Return the aggregate of a column; its arguments are type names, or columns of the type in ``@type``."""
    assert column.aggregate is not None
    types = [annotation for annotation in column.annotations if annotation.name.lower() == "type"]
    for annotation in column.annotations:
        if annotation not in types:
            fact = f"`@{annotation.name}` has no meaning for a column"
            module.report("unknown-annotation", fact, annotation.span, "such as window(*) @type(Trade)")
    if len(types) > 1:
        module.wrong("a column has one `@type`", types[1].span, "leave one out")
    if is_sketch(column):
        return bind_sketch(column, module)
    of = str(types[0].value) if types else None
    event_type = None if of is None else module.event_type(of, column.span)
    aggregate = column.aggregate
    if of is None:
        aggregate = map_nodes(aggregate, _type_name)
        event_type = EventType("", {type_.name: type_ for type_ in t.BY_NAME.values()})
    scope = Scope(module, (ScopeStream(None, event_type, of or ""),), None, False, no_row_functions="a column")
    bound = bind_expr(aggregate, scope)
    calls = list(scope.calls)
    if bound.type == ERROR:
        raise AlreadyReported(column.name)
    if not isinstance(bound, x.AggregateRef) or len(calls) != 1:
        module.reject("a column of a table is of a type or an aggregate", column.span)
    _check_form(column.aggregate, module)
    return calls[0]


def _type_name(node: Any) -> Any:
    """Return the chain of a type's name, which may have a package and is in any case, as one step."""
    path = isinstance(node, ast.Chain) and all(step.args is None and step.index is None for step in node.steps)
    type_ = builtin_type(".".join(step.name for step in node.steps)) if path else None
    return node if type_ is None else replace(node, steps=(ast.NameStep(type_.name, span=node.span),))


def _check_form(node: ast.Expr, module: ModuleScope) -> None:
    """Report an aggregate that a table keeps in another form only."""
    assert isinstance(node, ast.Chain)
    step = node.steps[0]
    row = AGGREGATES.get(step.name.lower())
    if step.named:
        hint = "into table … select sum(x, filter: …) needs a column sum(int, boolean)"
        module.reject(f"a column takes no `{step.named[0][0]}:`", step.span, hint)
    if row is not None and row.declared_as and not (step.wildcard and row.declared_as == f"{row.name}(*)"):
        fact = f"`{module.text(step.span)}` is no column of a table"
        module.reject(fact, step.span, f"declare {row.declared_as}, and read the column by a method")


_SKETCH = AGGREGATES["countminsketchadd"]


# Option of EPL -> parameter of the sketch, and whether it is a fraction between 0 and 1
_OPTIONS = {
    "epsOfTotalCount": ("epsilon", True),
    "confidence": ("confidence", True),
    "seed": ("seed", False),
    "topk": ("most", False),
}


def is_sketch(column: ast.ColumnDef) -> bool:
    """Return whether a column of a table is a count-min sketch."""
    return column.aggregate is not None and column.type_name.lower() == _SKETCH.column.lower()


def bind_sketch(column: ast.ColumnDef, module: ModuleScope) -> AggregateCall:
    """Return the aggregate of a count-min sketch, which takes strings. Raises AlreadyReported."""
    assert isinstance(column.aggregate, ast.Chain)
    (step,) = column.aggregate.steps
    if step.args or step.wildcard or step.distinct:
        module.reject("`countMinSketch` takes options", step.span, "such as countMinSketch({topk: 10})")
    options: list[tuple[str, float | int]] = []
    for name, values in step.named:
        if name not in _OPTIONS:
            module.reject(f"`countMinSketch` has no option `{name}`", step.span, did_you_mean(name, _OPTIONS))
        parameter, is_part = _OPTIONS[name]
        bound = fold_expr(bind_expr(values[0], Scope(module, no_aggregates="an option")))
        value = bound.value if isinstance(bound, x.Const) else None
        fits = 0 < value < 1 if is_part and isinstance(value, float) else not is_part and isinstance(value, int)
        if not fits or value is True or (name == "topk" and isinstance(value, int) and value < 1):
            expected = "a number between 0 and 1" if is_part else "a whole number above 0"
            expected = "a whole number" if name == "seed" else expected
            module.reject(f"`{name}` must be {expected}", values[0].span)
        assert isinstance(value, int | float)
        options.append((parameter, value))
    strings = (x.Const(t.STRING, None, span=step.span),)
    return AggregateCall(_SKETCH.name, strings, t.LONG, ever=True, options=tuple(options), span=step.span)
