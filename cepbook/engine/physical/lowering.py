"""From the plan of a statement to its steps: what each input keeps of its events follows from what is read later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.physical.access import plan_store_access
from cepbook.engine.physical.join import JoinOperator
from cepbook.engine.physical.operators import (
    AggregateOperator,
    CycleOperator,
    DeriveOperator,
    EmitOperator,
    FilterOperator,
    OutputRateOperator,
    PatternOperator,
    ProjectOperator,
    RecognizeOperator,
    ScanOperator,
    UnnestOperator,
    WindowOperator,
)
from cepbook.engine.physical.plan import PhysicalPlan, aggregate_inputs, expressions_after_windows
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import BoundExpr
from cepbook.lang.plan.traversal import substitute_expr
from cepbook.lang.types import BOOLEAN


def lower_statement(plan: p.StatementPlan) -> PhysicalPlan:
    """The steps of a statement that runs.

    Errors: Refusal for what the row engine does not know.
    """
    if isinstance(plan, p.SelectStatement):
        return _of_select(plan)
    if isinstance(plan, p.OnSetStatement):
        return PhysicalPlan(
            plan.span, plan.context, _scan(plan.source), EmitOperator(plan.selector, None, plan.assigned)
        )
    if isinstance(plan, p.SplitStatement):
        applied = EmitOperator("istream", None, plan.assigned, plan.drop, plan.branches)
        return PhysicalPlan(plan.span, plan.context, _scan(plan.source), applied)
    if isinstance(plan, p.CreateTableStatement):
        return PhysicalPlan(
            plan.span,
            plan.context,
            ScanOperator(p.SourceNode("", None, None)),
            EmitOperator("irstream"),
            table=plan.store,
        )
    if isinstance(plan, p.CycleStatement):
        inputs = [PhysicalPlan(each.span, None, ScanOperator(each), EmitOperator("istream")) for each in plan.sources]
        scan, inner = ScanOperator(plan.source), tuple(inputs)
        return PhysicalPlan(
            plan.span, None, scan, EmitOperator("istream"), inputs=inner, lots=True, cycles=CycleOperator(plan)
        )
    if isinstance(plan, p.MergeStatement):
        target_path = plan_store_access(x.conjuncts(plan.predicate), 0, (1,), plan.target)
        applied = EmitOperator("irstream", None, plan.assigned, plan.drop, merges=plan, target_path=target_path)
        return PhysicalPlan(plan.span, plan.context, _scan(plan.source), applied)
    if isinstance(plan, p.UpdateStatement):
        applied = EmitOperator("irstream", None, plan.assigned, plan.drop, changes=plan.changes)
        selection = None if plan.predicate is None else FilterOperator(plan.predicate)
        return PhysicalPlan(plan.span, None, _scan(plan.source), applied, selection=selection)
    context = plan.context if isinstance(plan, p.CreateVariableStatement) else None
    return PhysicalPlan(plan.span, context, ScanOperator(p.SourceNode("", None, None)), EmitOperator("irstream"))


def _scan(source: p.SourceNode) -> ScanOperator | PatternOperator:
    return ScanOperator(source) if source.pattern is None else PatternOperator(source, source.pattern)


def _of_select(plan: p.SelectStatement) -> PhysicalPlan:
    node: p.RowNode = plan.root.input
    having: BoundExpr | None = None
    applied = EmitOperator(plan.selector, plan.insert, plan.assigned, plan.drop)
    found = PhysicalPlan(plan.span, plan.context, _scan(plan.source), applied)
    found.lots = plan.lots
    if isinstance(plan, p.CreateWindowStatement):
        found.owns, found.fill = plan.store, plan.fill
    if isinstance(plan, p.OnSelectStatement):
        found.selects = plan
    found.into = plan.into
    if isinstance(node, p.Having):
        having, node = node.predicate, node.input
    if isinstance(node, p.Aggregation):
        found.fold, node = AggregateOperator(node), node.input
    if isinstance(node, p.Selection):
        found.selection, node = FilterOperator(node.predicate), node.input
    found.row = ProjectOperator(plan.root, having, plan.kind)
    found.pace = None if plan.output is None else OutputRateOperator(plan.output)
    if isinstance(node, p.StreamJoin):
        _join(found, node, found.selects is not None)
    elif isinstance(node, p.Recognition):
        _recognize(found, node)
    elif isinstance(node, (p.Windowed, p.Derivation, p.SourceNode)):
        by_ordinal = found.placed or found.owns is not None or found.lots
        _keep(found, _views(node), expressions_after_windows(found), found.projection.wildcard, by_ordinal)
    else:
        raise Refusal("unknown-plan", f"a select over {type(node).__name__} has no code in the row engine")
    return found


def _views(node: p.StreamNode) -> list[p.Windowed | p.Derivation]:
    """The nodes over the source, last to first."""
    return [each for each in p.chain(node) if isinstance(each, (p.Windowed, p.Derivation))]


def _recognize(found: PhysicalPlan, node: p.Recognition) -> None:
    """Rows are kept whole: a match has them."""
    found.finds = RecognizeOperator(node)
    after = expressions_after_windows(found)
    _keep(found, _views(node.input), [], True, True)
    found.priors = _priors(after)
    found.stages = (*found.stages, _stage(None, [], after, found.projection.wildcard, 0, True))


def _priors(after: list[BoundExpr | None]) -> tuple[x.Prior, ...]:
    """The calls of ``prior`` of its own events."""
    parts = (part for e in after if e is not None for part in x.walk(e))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, x.Prior) and not _reads_others(part)))


def _join(found: PhysicalPlan, node: p.StreamJoin, triggered: bool) -> None:
    """Each input keeps what the join, and all that comes after it, reads of its events.

    `triggered`: it joins what sets an on-trigger off with the rows of a store, whose ranges may have swapped bounds.
    """
    join = JoinOperator(node, ())
    if join.inner:
        parts = [part for each in node.inputs for part in x.conjuncts(each.on)]
        parts += [each for part in x.conjuncts(found.where) for each in ([part] if triggered else _in_order(part))]
        placed = _OF_ROW if triggered else (*_OF_ROW, *_OF_STATE)
        early = [part for part in parts if not any(isinstance(e, placed) for e in x.walk(part))]
        late = [part for part in parts if part not in early]
        join = JoinOperator(node, tuple(early))
        found.selection = FilterOperator(_conjunction(late)) if late else None
    found.join = join
    after = [*expressions_after_windows(found), *join.conditions, *(each.on for each in node.inputs)]
    inputs: list[PhysicalPlan] = []
    shared: dict[int, tuple[StoreType, tuple[BoundExpr, ...]]] = {}
    for number, each in enumerate(node.inputs):
        source = p.source_of(each.stream)
        steps = PhysicalPlan(each.span, found.context, _scan(source), EmitOperator("irstream"), lots=found.lots)
        own = [None if e is None else rebase_to_input(e, number) for e in after]
        if source.store is not None and not each.unidirectional and reads_shared_relation(source, found.context, own):
            shared[number] = source.store, tuple(_as_input(e, number) for e in x.conjuncts(source.filter))
            own.append(source.filter)
        steps.row = ProjectOperator(p.Projection(each.stream, ()), None, "unaggregated")
        _keep(steps, _views(each.stream), own, False, True)
        inputs.append(steps)
    found.inputs = tuple(inputs)
    found.join = replace(join, shared=shared)
    found.stages = (WindowOperator((), False, (), (), False, False, True, 0),)
    found.priors = ()


# What has another value for the same events from one row to the next: no condition of a join
_OF_ROW = (x.Prev, x.Prior, x.InsertStream)
# What the state of the statement knows, which triggers have at hand when they look for rows
_OF_STATE = (x.SubqueryRef, x.ContextProp, x.TableRead)


def rebase_to_input(e: BoundExpr, number: int) -> BoundExpr:
    """`e` as the steps of an input see it: its own events are those of stream 0, and no others are known."""
    own: dict[BoundExpr, BoundExpr] = {}
    for part in x.walk(e):
        if isinstance(part, (x.Prop, x.EventOf)):
            own[part] = replace(part, stream=0 if part.stream == number else -1)
    return substitute_expr(e, own)


def _as_input(e: BoundExpr, number: int) -> BoundExpr:
    """`e`, which reads stream 0 alone, of the input `number`."""
    parts = (part for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf)))
    return substitute_expr(e, {part: replace(part, stream=number) for part in parts})


def reads_shared_relation(source: p.SourceNode, context: str | None, after: Iterable[BoundExpr | None]) -> bool:
    """Whether a reader in `context` looks into the relation of the store itself, and keeps no copy of its rows.

    `after` is what is read of its items, as those of stream 0. A filter whose value may change decides when a row
    enters. Rows of a table are read as they are, and so is what their filter reads.
    """
    store = source.store
    if store is None or source.contained or store.collects or store.context not in (None, context):
        return False
    parts = [part for e in after if e is not None for part in x.walk(e)]
    if any(isinstance(e, (x.Prev, x.Prior)) and (e.value is None or not _reads_others(e.value)) for e in parts):
        return False
    passing: tuple[type[BoundExpr], ...] = (x.SubqueryRef, x.ContextProp)
    if store.kind == "window":
        passing += (x.VariableRead, x.UserCall, x.CurrentTimestamp, x.TableRead)
    return not any(isinstance(e, passing) for f in x.conjuncts(source.filter) for e in x.walk(f))


def _in_order(e: BoundExpr) -> list[BoundExpr]:
    """A range between columns, as two comparisons: in a join its bounds are in order (recorded: between_join)."""
    if not isinstance(e, x.RangeTest) or e.negated or all(isinstance(b, x.Const) for b in (e.low, e.high)):
        return [e]
    above = x.ComparisonExpr(BOOLEAN, ">=" if e.include_low else ">", e.operand, e.low, span=e.span)
    return [above, x.ComparisonExpr(BOOLEAN, "<=" if e.include_high else "<", e.operand, e.high, span=e.span)]


def _conjunction(parts: list[BoundExpr]) -> BoundExpr:
    if len(parts) == 1:
        return parts[0]
    return x.Logic(BOOLEAN, "and", tuple(parts), span=parts[0].span.to(parts[-1].span))


def _keep(
    steps: PhysicalPlan,
    streams: list[p.Windowed | p.Derivation],
    after: list[BoundExpr | None],
    wildcard: bool,
    by_ordinal: bool,
) -> None:
    """The views of a stream; `after` is what is read of its events behind them, as a whole with `wildcard`."""
    steps.priors = _priors(after)
    derived = next((node for node in streams if isinstance(node, p.Derivation)), None)
    windowed = [node for node in streams if isinstance(node, p.Windowed)]
    if steps.source.contained and steps.source.store is not None:  # its rows come as what they contain
        steps.stages = (_stage(None, [], after, wildcard, 0, True),)
        return
    if steps.source.contained:
        steps.derive = UnnestOperator(steps.source.contained)
        above = windowed[0] if windowed else None
        whole = _stage(None, [steps.source.filter], [], True, 0, True)
        steps.stages = (whole, _stage(above, [], after, wildcard, 0, True))
        return
    if derived is None:
        below = windowed[0] if windowed else None
        steps.stages = (_stage(below, [steps.source.filter], after, wildcard, 0, by_ordinal),)
        return
    steps.derive = DeriveOperator(derived)
    below = windowed[-1] if windowed and windowed[-1] is derived.input else None
    above = windowed[0] if streams[0] is not derived and windowed else None
    derives = [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
    steps.stages = (
        _stage(below, [steps.source.filter, *derives], [], False, len(derives), True),
        _stage(above, [], after, wildcard, 0, True),
    )


def _reads_others(e: BoundExpr) -> bool:
    """Whether it is of another input of a join."""
    return any(isinstance(part, (x.Prop, x.EventOf)) and part.stream < 0 for part in x.walk(e))


def _stage(
    node: p.Windowed | None,
    arriving: list[BoundExpr | None],
    after: list[BoundExpr | None],
    wildcard: bool,
    more: int,
    by_ordinal: bool,
) -> WindowOperator:
    windows = () if node is None else node.windows
    rows = [w.row for w in windows]
    later = list(after)
    for window, row in zip(windows, rows, strict=True):
        arriving = [*arriving, *window.args, *(e for e, _ in window.criteria)]
        if row.has_condition:
            later += [*window.args, *aggregate_inputs(window.calls)]
    parts = [part for e in later if e is not None for part in x.walk(e) if isinstance(part, x.WindowValue)]
    known_only_here = any(part.name.endswith("_event") for part in parts)
    timestamps = any(part.name.endswith("_timestamp") for part in parts)
    several = sum(row.holds for row in rows) > 1
    merged = any(row.merging for row in rows)
    return WindowOperator(
        windows,
        node is not None and node.union,
        tuple(lower.property_names(*arriving, *later)),
        tuple(lower.property_names(*later)),
        wildcard or known_only_here or lower.reads_event(*later),
        timestamps or any(row.reads_arrival_time for row in rows),
        by_ordinal or several or merged or any(row.by_ordinal for row in rows),
        sum(row.operands for row in rows) + more,
    )
