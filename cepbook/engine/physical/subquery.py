"""Lowering of subqueries: which events a subquery keeps, and how their rows are looked up.

A subquery with conditions on values of the outer statement, or one that returns rows, keeps its events in a relation
and reads this by an access path. A subquery that returns only aggregates keeps accumulators instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.physical.access import AccessPath, plan_access, plan_store_access
from cepbook.engine.physical.lowering import lower_statement, reads_shared_relation
from cepbook.engine.physical.operators import LookupOperator
from cepbook.engine.physical.plan import PhysicalPlan, expressions_after_windows
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.references import streams_read
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.types import is_hashable

# Parts of expressions whose value depends on nothing but the row.
_ROW_EXPRESSIONS = (
    x.Prop, x.Const, x.Arith, x.Negate, x.ComparisonExpr, x.Is, x.Logic, x.LogicalNot, x.RangeTest, x.InList, x.Convert,
)  # fmt: skip
_NO_CONTEXT = ""  # stands for the context of a subquery outside contexts: its functions take the state all the same


def lower_subquery(subquery: p.SubqueryPlan, context: str | None, fed_table: str | None = None) -> PhysicalPlan:
    """Return the physical plan of a subquery of a statement in `context` that feeds the table `fed_table`. Errors:
    Refusal for a construct that the row engine does not support.
    """
    root = subquery.root
    if subquery.form == "exists" and subquery.kind == "unaggregated":  # nobody reads its columns
        root = replace(root, columns=(), wildcard=False, distinct=False)
    statement = p.SelectStatement(
        name="",
        named=False,
        epl="",
        annotations=(),
        root=root,
        selector="istream",
        kind=subquery.kind,
        context=context or _NO_CONTEXT,
        insert=None,
        output_type=EventType("", {}),
        span=subquery.span,
    )
    steps = lower_statement(statement)
    conditions = x.conjuncts(steps.where)
    correlated = any(isinstance(node, x.SubqueryParameter) for e in conditions for node in x.walk(e))
    keeps_relation = steps.aggregate is None or correlated
    later = [*expressions_after_windows(steps), *conditions]
    shared = keeps_relation and not steps.views_store and reads_shared_relation(steps.source, context, later)
    if shared:  # the filter is tested at each lookup
        stage, condition = steps.stages[0], steps.source.filter
        retained = tuple(dict.fromkeys((*stage.retained, *lower.property_names(condition))))
        retains_event = stage.retains_event or lower.reads_event(condition)
        steps.stages = (replace(stage, retained=retained, retains_event=retains_event),)
    path = _access_path(_null_safe_keys(conditions), steps, shared) if keeps_relation else None
    member = None if path is None else _membership(subquery, path, steps, shared)
    follows = path is None and _can_follow_table(steps, fed_table)
    steps.lookup = LookupOperator(subquery, member or path, member is not None, shared, follows)
    return steps


def _can_follow_table(steps: PhysicalPlan, fed_table: str | None) -> bool:
    """True if aggregates over a table can be updated from its changed rows. The aggregates do not depend on the order
    of rows, conditions and arguments depend on the row only, and the statement does not change the table itself.
    """
    store = steps.source.store
    if store is None or store.kind != "table" or store.context is not None or steps.context or store.name == fed_table:
        return False
    if any(stage.retains_event for stage in steps.stages):
        return False
    read = [e for call in steps.calls for e in (*call.args, call.filter, *(call.group_by or ()))]
    read += [steps.source.filter, steps.where, *steps.keys]
    nodes = [node for e in read if e is not None for node in x.walk(e)]
    rows = [AGGREGATES.get(call.name) for call in steps.calls]
    unordered = all(row is not None and not (row.in_order or row.sorts or row.ever or row.remembers) for row in rows)
    return unordered and all(is_hashable(node.type) and isinstance(node, _ROW_EXPRESSIONS) for node in nodes)


def _access_path(conditions: Sequence[x.BoundExpr], steps: PhysicalPlan, shared: bool) -> AccessPath:
    store = steps.source.store
    if not shared or store is None:
        return plan_access(conditions, 0, ())
    return plan_store_access(conditions, 0, (), store, x.conjuncts(steps.source.filter))


def _membership(subquery: p.SubqueryPlan, path: AccessPath, steps: PhysicalPlan, shared: bool) -> AccessPath | None:
    """Return the index of the only column if the subquery only tests whether the column contains a value, or None.

    Aggregation columns of a table have no index.
    """
    unconditional = subquery.form == "any" and subquery.op == "=" and path.scans and not path.rest
    if not unconditional or subquery.kind != "unaggregated" or isinstance(subquery.root.input, p.Having):
        return None
    by_value = _access_path([subquery.root.columns[0].value], steps, shared)
    return by_value if len(by_value.keys) == 1 and not by_value.keys[0].more and not by_value.rest else None


def _null_safe_keys(conditions: Sequence[x.BoundExpr]) -> list[x.BoundExpr]:
    """Make equalities of two or more columns null-safe: null equals null (recorded: scalar_correlated_two_keys)."""
    equalities = [e for e in conditions if isinstance(e, x.ComparisonExpr) and _is_correlation(e)]
    if len(equalities) < 2:
        return list(conditions)
    null_safe = {id(e): x.Is(e.type, e.left, e.right, False, span=e.span) for e in equalities}
    return [null_safe.get(id(e), e) for e in conditions]


def _is_correlation(e: x.ComparisonExpr) -> bool:
    return any(_is_column(own) and not streams_read(other) for own, other in x.equality_sides(e))


def _is_column(e: x.BoundExpr) -> bool:
    return isinstance(e, x.Prop) or (isinstance(e, x.Convert) and _is_column(e.operand))
