"""Lowering: from the logical plan of a statement to its physical plan.

Lowering works backwards. The expressions of rows, conditions and aggregates decide which properties a window retains,
the retained properties decide which ones are read of arriving events.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.physical import operators as op
from cepbook.engine.physical.access import plan_store_access
from cepbook.engine.physical.join import JoinOperator
from cepbook.engine.physical.plan import PhysicalPlan, aggregate_inputs, expressions_after_windows
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.traversal import substitute_expr
from cepbook.lang.types import BOOLEAN


def lower_statement(plan: p.StatementPlan) -> PhysicalPlan:
    """Return the physical plan of a statement. Errors: Refusal for a construct that the row engine does not support."""
    if isinstance(plan, p.SelectStatement):
        return _of_select(plan)
    if isinstance(plan, p.OnSetStatement):
        emit = op.EmitOperator(plan.selector, None, plan.assigned)
        return PhysicalPlan(plan.span, plan.context, _scan(plan.source), emit)
    if isinstance(plan, p.SplitStatement):
        emit = op.EmitOperator("istream", None, plan.assigned, plan.drop, plan.branches)
        return PhysicalPlan(plan.span, plan.context, _scan(plan.source), emit)
    if isinstance(plan, p.CreateTableStatement):
        return PhysicalPlan(
            plan.span,
            plan.context,
            op.ScanOperator(p.SourceNode("", None, None)),
            op.EmitOperator("irstream"),
            table=plan.store,
        )
    if isinstance(plan, p.CycleStatement):
        emit = op.EmitOperator("istream")
        inputs = [PhysicalPlan(source.span, None, op.ScanOperator(source), emit) for source in plan.sources]
        scan, inner = op.ScanOperator(plan.source), tuple(inputs)
        return PhysicalPlan(
            plan.span,
            None,
            scan,
            op.EmitOperator("istream"),
            inputs=inner,
            buffers_input=True,
            cycle=op.CycleOperator(plan),
        )
    if isinstance(plan, p.MergeStatement):
        target_path = plan_store_access(x.conjuncts(plan.predicate), 0, (1,), plan.target)
        emit = op.EmitOperator("irstream", None, plan.assigned, plan.drop, merges=plan, target_path=target_path)
        return PhysicalPlan(plan.span, plan.context, _scan(plan.source), emit)
    if isinstance(plan, p.UpdateStatement):
        emit = op.EmitOperator("irstream", None, plan.assigned, plan.drop, changes=plan.changes)
        selection = None if plan.predicate is None else op.FilterOperator(plan.predicate)
        return PhysicalPlan(plan.span, None, _scan(plan.source), emit, filter=selection)
    context = plan.context if isinstance(plan, p.CreateVariableStatement) else None
    return PhysicalPlan(plan.span, context, op.ScanOperator(p.SourceNode("", None, None)), op.EmitOperator("irstream"))


def _scan(source: p.SourceNode) -> op.ScanOperator | op.PatternOperator:
    return op.ScanOperator(source) if source.pattern is None else op.PatternOperator(source, source.pattern)


def _of_select(plan: p.SelectStatement) -> PhysicalPlan:
    node: p.RowNode = plan.root.input
    having: BoundExpr | None = None
    emit = op.EmitOperator(plan.selector, plan.insert, plan.assigned, plan.drop)
    steps = PhysicalPlan(plan.span, plan.context, _scan(plan.source), emit)
    steps.buffers_input = plan.lots
    if isinstance(plan, p.CreateWindowStatement):
        steps.owned_store, steps.initial_rows = plan.store, plan.fill
    if isinstance(plan, p.OnSelectStatement):
        steps.on_select = plan
    steps.into = plan.into
    if isinstance(node, p.Having):
        having, node = node.predicate, node.input
    if isinstance(node, p.Aggregation):
        steps.aggregate, node = op.AggregateOperator(node), node.input
    if isinstance(node, p.Selection):
        steps.filter, node = op.FilterOperator(node.predicate), node.input
    steps.row = op.ProjectOperator(plan.root, having, plan.kind)
    steps.output_rate = None if plan.output is None else op.OutputRateOperator(plan.output)
    if isinstance(node, p.StreamJoin):
        _join(steps, node, steps.on_select is not None)
    elif isinstance(node, p.Recognition):
        _recognize(steps, node)
    elif isinstance(node, (p.Windowed, p.Derivation, p.SourceNode)):
        by_ordinal = steps.reads_prev or steps.owned_store is not None or steps.buffers_input
        _keep(steps, _views(node), expressions_after_windows(steps), steps.projection.wildcard, by_ordinal)
    else:
        raise Refusal("unknown-plan", f"the row engine does not support a select over {type(node).__name__}")
    return steps


def _views(node: p.StreamNode) -> list[p.Windowed | p.Derivation]:
    return [stream for stream in p.chain(node) if isinstance(stream, (p.Windowed, p.Derivation))]


def _recognize(steps: PhysicalPlan, node: p.Recognition) -> None:
    steps.recognizer = op.RecognizeOperator(node)
    after = expressions_after_windows(steps)
    _keep(steps, _views(node.input), [], True, True)
    steps.priors = _priors(after)
    steps.stages = (*steps.stages, _stage(None, [], after, steps.projection.wildcard, 0, True))


def _priors(after: list[BoundExpr | None]) -> tuple[x.Prior, ...]:
    nodes = (node for e in after if e is not None for node in x.walk(e))
    return tuple(dict.fromkeys(node for node in nodes if isinstance(node, x.Prior) and not _reads_others(node)))


def _join(steps: PhysicalPlan, node: p.StreamJoin, triggered: bool) -> None:
    """Plan a join: each input retains what the join, and everything after it, reads of its events. With `triggered` the
    join combines an on-trigger with the rows of a store; then the bounds of a range may be swapped.
    """
    join = JoinOperator(node, ())
    if join.inner:
        conditions = [e for stream in node.inputs for e in x.conjuncts(stream.on)]
        conditions += [e for where in x.conjuncts(steps.where) for e in ([where] if triggered else _in_order(where))]
        placed = _OF_ROW if triggered else (*_OF_ROW, *_OF_STATE)
        early = [e for e in conditions if not any(isinstance(node, placed) for node in x.walk(e))]
        late = [e for e in conditions if e not in early]
        join = JoinOperator(node, tuple(early))
        steps.filter = op.FilterOperator(_conjunction(late)) if late else None
    steps.join = join
    after = [*expressions_after_windows(steps), *join.conditions, *(stream.on for stream in node.inputs)]
    inputs: list[PhysicalPlan] = []
    shared: dict[int, tuple[StoreType, tuple[BoundExpr, ...]]] = {}
    sources = [p.source_of(input_.stream) for input_ in node.inputs]
    windows = [source.store for source in sources if source.store is not None and source.store.kind == "window"]
    for number, (input_, source) in enumerate(zip(node.inputs, sources, strict=True)):
        input_plan = PhysicalPlan(
            input_.span, steps.context, _scan(source), op.EmitOperator("irstream"), buffers_input=steps.buffers_input
        )
        own = [None if e is None else rebase_to_input(e, number) for e in after]
        plain = input_.stream is source and not input_.unidirectional  # a derived-value window has rows of its own
        once = source.store is not None and windows.count(source.store) < 2  # else rows enter several inputs together
        if source.store is not None and plain and once and reads_shared_relation(source, steps.context, own):
            shared[number] = source.store, tuple(_as_input(e, number) for e in x.conjuncts(source.filter))
            own.append(source.filter)
        input_plan.row = op.ProjectOperator(p.Projection(input_.stream, ()), None, "unaggregated")
        _keep(input_plan, _views(input_.stream), own, False, True)
        inputs.append(input_plan)
    steps.inputs = tuple(inputs)
    steps.join = replace(join, shared=shared)
    steps.stages = (op.WindowOperator((), False, (), (), False, False, True, 0),)
    steps.priors = ()


# Expressions whose value differs from row to row for the same events; they cannot be conditions of a join.
_OF_ROW = (x.Prev, x.Prior, x.InsertStream)
# Expressions over the state of the statement, which an on-trigger can evaluate while it finds rows.
_OF_STATE = (x.SubqueryRef, x.ContextProp, x.TableRead)


def rebase_to_input(e: BoundExpr, number: int) -> BoundExpr:
    """Return `e` as the plan of one input sees it: its own events are stream 0, others are unknown."""
    own: dict[BoundExpr, BoundExpr] = {}
    for node in x.walk(e):
        if isinstance(node, (x.Prop, x.EventOf)):
            own[node] = replace(node, stream=0 if node.stream == number else -1)
    return substitute_expr(e, own)


def _as_input(e: BoundExpr, number: int) -> BoundExpr:
    nodes = (node for node in x.walk(e) if isinstance(node, (x.Prop, x.EventOf)))
    return substitute_expr(e, {node: replace(node, stream=number) for node in nodes})


def reads_shared_relation(source: p.SourceNode, context: str | None, after: Iterable[BoundExpr | None]) -> bool:
    """Return whether a reader in `context` reads the relation of the store itself, instead of a copy of its rows.
    `after` are the expressions over its items, as those of stream 0. A filter whose value may change decides when a row
    enters, so it needs a copy. Rows of a table, and their filters, are always evaluated at the time of reading.
    """
    store = source.store
    if store is None or source.contained or store.collects or store.context not in (None, context):
        return False
    nodes = [node for e in after if e is not None for node in x.walk(e)]
    if any(isinstance(e, (x.Prev, x.Prior)) and (e.value is None or not _reads_others(e.value)) for e in nodes):
        return False
    passing: tuple[type[BoundExpr], ...] = (x.SubqueryRef, x.ContextProp)
    if store.kind == "window":
        passing += (x.VariableRead, x.UserCall, x.CurrentTimestamp, x.TableRead)
    return not any(isinstance(e, passing) for f in x.conjuncts(source.filter) for e in x.walk(f))


def _in_order(e: BoundExpr) -> list[BoundExpr]:
    if not isinstance(e, x.RangeTest) or e.negated or all(isinstance(b, x.Const) for b in (e.low, e.high)):
        return [e]
    above = x.ComparisonExpr(BOOLEAN, ">=" if e.include_low else ">", e.operand, e.low, span=e.span)
    return [above, x.ComparisonExpr(BOOLEAN, "<=" if e.include_high else "<", e.operand, e.high, span=e.span)]


def _conjunction(conditions: list[BoundExpr]) -> BoundExpr:
    if len(conditions) == 1:
        return conditions[0]
    return x.Logic(BOOLEAN, "and", tuple(conditions), span=conditions[0].span.to(conditions[-1].span))


def _keep(
    steps: PhysicalPlan,
    streams: list[p.Windowed | p.Derivation],
    after: list[BoundExpr | None],
    wildcard: bool,
    by_ordinal: bool,
) -> None:
    steps.priors = _priors(after)
    derived = next((node for node in streams if isinstance(node, p.Derivation)), None)
    windowed = [node for node in streams if isinstance(node, p.Windowed)]
    if steps.source.contained and steps.source.store is not None:  # its rows come as what they contain
        steps.stages = (_stage(None, [], after, wildcard, 0, True),)
        return
    if steps.source.contained:
        steps.derive = op.UnnestOperator(steps.source.contained)
        above = windowed[0] if windowed else None
        whole = _stage(None, [steps.source.filter], [], True, 0, True)
        steps.stages = (whole, _stage(above, [], after, wildcard, 0, True))
        return
    if derived is None:
        below = windowed[0] if windowed else None
        steps.stages = (_stage(below, [steps.source.filter], after, wildcard, 0, by_ordinal),)
        return
    steps.derive = op.DeriveOperator(derived)
    below = windowed[-1] if windowed and windowed[-1] is derived.input else None
    above = windowed[0] if streams[0] is not derived and windowed else None
    derives = [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
    steps.stages = (
        _stage(below, [steps.source.filter, *derives], [], False, len(derives), True),
        _stage(above, [], after, wildcard, 0, True),
    )


def _reads_others(e: BoundExpr) -> bool:
    return any(isinstance(node, (x.Prop, x.EventOf)) and node.stream < 0 for node in x.walk(e))


def _stage(
    node: p.Windowed | None,
    arriving: list[BoundExpr | None],
    after: list[BoundExpr | None],
    wildcard: bool,
    more: int,
    by_ordinal: bool,
) -> op.WindowOperator:
    windows = () if node is None else node.windows
    rows = [w.row for w in windows]
    later = list(after)
    for window, row in zip(windows, rows, strict=True):
        arriving = [*arriving, *window.args, *(e for e, _ in window.criteria)]
        if row.has_condition:
            later += [*window.args, *aggregate_inputs(window.calls)]
    nodes = [value for e in later if e is not None for value in x.find(x.WindowValue, e)]
    known_only_here = any(value.name.endswith("_event") for value in nodes)
    timestamps = any(value.name.endswith("_timestamp") for value in nodes)
    several = sum(row.holds for row in rows) > 1
    merged = any(row.merging for row in rows)
    return op.WindowOperator(
        windows,
        node is not None and node.union,
        tuple(lower.property_names(*arriving, *later)),
        tuple(lower.property_names(*later)),
        wildcard or known_only_here or lower.reads_event(*later),
        timestamps or any(row.reads_arrival_time for row in rows),
        by_ordinal or several or merged or any(row.by_ordinal for row in rows),
        sum(row.operands for row in rows) + more,
    )
