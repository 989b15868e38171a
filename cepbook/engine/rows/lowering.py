"""From the plan of a statement to its steps: what each input keeps of its events follows from what is read later."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cepbook.engine.relations.access import of_store
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.behind import Derive, Recognize, Unfold
from cepbook.engine.rows.cyclestep import Cycle
from cepbook.engine.rows.joinstep import Join
from cepbook.engine.rows.steps import (
    Apply,
    Fold,
    Keep,
    Match,
    Pace,
    Row,
    Scan,
    Steps,
    Where,
    after_window,
    of_calls,
)
from cepbook.errors import Refusal
from cepbook.lang import expr as x
from cepbook.lang import plan as p
from cepbook.lang.catalog import StoreType
from cepbook.lang.expr import Expr
from cepbook.lang.rewrite.expressions import substitute
from cepbook.lang.types import BOOLEAN


def lowered(plan: p.StatementPlan) -> Steps:
    """The steps of a statement that runs.

    Errors: Refusal for what the row engine does not know.
    """
    if isinstance(plan, p.SelectStatement):
        return _of_select(plan)
    if isinstance(plan, p.OnSetStatement):
        return Steps(plan.span, plan.context, _scan(plan.source), Apply(plan.selector, None, plan.assigned))
    if isinstance(plan, p.SplitStatement):
        applied = Apply("istream", None, plan.assigned, plan.drop, plan.branches)
        return Steps(plan.span, plan.context, _scan(plan.source), applied)
    if isinstance(plan, p.CreateTableStatement):
        return Steps(plan.span, plan.context, Scan(p.Source("", None, None)), Apply("irstream"), table=plan.store)
    if isinstance(plan, p.CycleStatement):
        inputs = [Steps(each.span, None, Scan(each), Apply("istream")) for each in plan.sources]
        scan, inner = Scan(plan.source), tuple(inputs)
        return Steps(plan.span, None, scan, Apply("istream"), inputs=inner, lots=True, cycles=Cycle(plan))
    if isinstance(plan, p.MergeStatement):
        found = of_store(x.conjuncts(plan.predicate), 0, (1,), plan.target)
        applied = Apply("irstream", None, plan.assigned, plan.drop, merges=plan, found=found)
        return Steps(plan.span, plan.context, _scan(plan.source), applied)
    if isinstance(plan, p.UpdateStatement):
        applied = Apply("irstream", None, plan.assigned, plan.drop, changes=plan.changes)
        selection = None if plan.predicate is None else Where(plan.predicate)
        return Steps(plan.span, None, _scan(plan.source), applied, selection=selection)
    context = plan.context if isinstance(plan, p.CreateVariableStatement) else None
    return Steps(plan.span, context, Scan(p.Source("", None, None)), Apply("irstream"))


def _scan(source: p.Source) -> Scan | Match:
    return Scan(source) if source.pattern is None else Match(source, source.pattern)


def _of_select(plan: p.SelectStatement) -> Steps:
    node: p.RowNode = plan.root.input
    having: Expr | None = None
    applied = Apply(plan.selector, plan.insert, plan.assigned, plan.drop)
    found = Steps(plan.span, plan.context, _scan(plan.source), applied)
    found.lots = plan.lots
    if isinstance(plan, p.CreateWindowStatement):
        found.owns, found.fill = plan.store, plan.fill
    if isinstance(plan, p.OnSelectStatement):
        found.selects = plan
    found.into = plan.into
    if isinstance(node, p.Having):
        having, node = node.predicate, node.input
    if isinstance(node, p.Aggregation):
        found.fold, node = Fold(node), node.input
    if isinstance(node, p.Selection):
        found.selection, node = Where(node.predicate), node.input
    found.row = Row(plan.root, having, plan.kind)
    found.pace = None if plan.output is None else Pace(plan.output)
    if isinstance(node, p.Join):
        _join(found, node, found.selects is not None)
    elif isinstance(node, p.Recognize):
        _recognize(found, node)
    elif isinstance(node, (p.Windowed, p.Derived, p.Source)):
        by_ordinal = found.placed or found.owns is not None or found.lots
        _keep(found, _views(node), after_window(found), found.projection.wildcard, by_ordinal)
    else:
        raise Refusal("unknown-plan", f"a select over {type(node).__name__} has no code in the row engine")
    return found


def _views(node: p.StreamNode) -> list[p.Windowed | p.Derived]:
    """The nodes over the source, last to first."""
    return [each for each in p.chain(node) if isinstance(each, (p.Windowed, p.Derived))]


def _recognize(found: Steps, node: p.Recognize) -> None:
    """Rows are kept whole: a match has them."""
    found.finds = Recognize(node)
    after = after_window(found)
    _keep(found, _views(node.input), [], True, True)
    found.priors = _priors(after)
    found.stages = (*found.stages, _stage(None, [], after, found.projection.wildcard, 0, True))


def _priors(after: list[Expr | None]) -> tuple[x.Prior, ...]:
    """The calls of ``prior`` of its own events."""
    parts = (part for e in after if e is not None for part in x.walk(e))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, x.Prior) and not _reads_others(part)))


def _join(found: Steps, node: p.Join, triggered: bool) -> None:
    """Each input keeps what the join, and all that comes after it, reads of its events.

    `triggered`: it joins what sets an on-trigger off with the rows of a store, whose ranges may have swapped bounds.
    """
    join = Join(node, ())
    if join.inner:
        parts = [part for each in node.inputs for part in x.conjuncts(each.on)]
        parts += [each for part in x.conjuncts(found.where) for each in ([part] if triggered else _in_order(part))]
        placed = _OF_ROW if triggered else (*_OF_ROW, *_OF_STATE)
        early = [part for part in parts if not any(isinstance(e, placed) for e in x.walk(part))]
        late = [part for part in parts if part not in early]
        join = Join(node, tuple(early))
        found.selection = Where(_conjunction(late)) if late else None
    found.join = join
    after = [*after_window(found), *join.conditions, *(each.on for each in node.inputs)]
    inputs: list[Steps] = []
    shared: dict[int, tuple[StoreType, tuple[Expr, ...]]] = {}
    for number, each in enumerate(node.inputs):
        source = p.source_of(each.stream)
        steps = Steps(each.span, found.context, _scan(source), Apply("irstream"), lots=found.lots)
        own = [None if e is None else of_input(e, number) for e in after]
        if source.store is not None and not each.unidirectional and is_shared(source, found.context, own):
            shared[number] = source.store, tuple(_as_input(e, number) for e in x.conjuncts(source.filter))
            own.append(source.filter)
        steps.row = Row(p.Projection(each.stream, ()), None, "unaggregated")
        _keep(steps, _views(each.stream), own, False, True)
        inputs.append(steps)
    found.inputs = tuple(inputs)
    found.join = replace(join, shared=shared)
    found.stages = (Keep((), False, (), (), False, False, True, 0),)
    found.priors = ()


# What has another value for the same events from one row to the next: no condition of a join
_OF_ROW = (x.Prev, x.Prior, x.InsertStream)
# What the state of the statement knows, which triggers have at hand when they look for rows
_OF_STATE = (x.SubqueryRef, x.ContextProp, x.TableRead)


def of_input(e: Expr, number: int) -> Expr:
    """`e` as the steps of an input see it: its own events are those of stream 0, and no others are known."""
    own: dict[Expr, Expr] = {}
    for part in x.walk(e):
        if isinstance(part, (x.Prop, x.EventOf)):
            own[part] = replace(part, stream=0 if part.stream == number else -1)
    return substitute(e, own)


def _as_input(e: Expr, number: int) -> Expr:
    """`e`, which reads stream 0 alone, of the input `number`."""
    parts = (part for part in x.walk(e) if isinstance(part, (x.Prop, x.EventOf)))
    return substitute(e, {part: replace(part, stream=number) for part in parts})


def is_shared(source: p.Source, context: str | None, after: Iterable[Expr | None]) -> bool:
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
    passing: tuple[type[Expr], ...] = (x.SubqueryRef, x.ContextProp)
    if store.kind == "window":
        passing += (x.Variable, x.UserCall, x.CurrentTimestamp, x.TableRead)
    return not any(isinstance(e, passing) for f in x.conjuncts(source.filter) for e in x.walk(f))


def _in_order(e: Expr) -> list[Expr]:
    """A range between columns, as two comparisons: in a join its bounds are in order (recorded: between_join)."""
    if not isinstance(e, x.Between) or e.negated or all(isinstance(b, x.Const) for b in (e.low, e.high)):
        return [e]
    above = x.Compare(BOOLEAN, ">=" if e.include_low else ">", e.operand, e.low, span=e.span)
    return [above, x.Compare(BOOLEAN, "<=" if e.include_high else "<", e.operand, e.high, span=e.span)]


def _conjunction(parts: list[Expr]) -> Expr:
    if len(parts) == 1:
        return parts[0]
    return x.Logic(BOOLEAN, "and", tuple(parts), span=parts[0].span.to(parts[-1].span))


def _keep(
    steps: Steps, streams: list[p.Windowed | p.Derived], after: list[Expr | None], wildcard: bool, by_ordinal: bool
) -> None:
    """The views of a stream; `after` is what is read of its events behind them, as a whole with `wildcard`."""
    steps.priors = _priors(after)
    derived = next((node for node in streams if isinstance(node, p.Derived)), None)
    windowed = [node for node in streams if isinstance(node, p.Windowed)]
    if steps.source.contained and steps.source.store is not None:  # its rows come as what they contain
        steps.stages = (_stage(None, [], after, wildcard, 0, True),)
        return
    if steps.source.contained:
        steps.derive = Unfold(steps.source.contained)
        above = windowed[0] if windowed else None
        whole = _stage(None, [steps.source.filter], [], True, 0, True)
        steps.stages = (whole, _stage(above, [], after, wildcard, 0, True))
        return
    if derived is None:
        below = windowed[0] if windowed else None
        steps.stages = (_stage(below, [steps.source.filter], after, wildcard, 0, by_ordinal),)
        return
    steps.derive = Derive(derived)
    below = windowed[-1] if windowed and windowed[-1] is derived.input else None
    above = windowed[0] if streams[0] is not derived and windowed else None
    derives = [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
    steps.stages = (
        _stage(below, [steps.source.filter, *derives], [], False, len(derives), True),
        _stage(above, [], after, wildcard, 0, True),
    )


def _reads_others(e: Expr) -> bool:
    """Whether it is of another input of a join."""
    return any(isinstance(part, (x.Prop, x.EventOf)) and part.stream < 0 for part in x.walk(e))


def _stage(
    node: p.Windowed | None,
    arriving: list[Expr | None],
    after: list[Expr | None],
    wildcard: bool,
    more: int,
    by_ordinal: bool,
) -> Keep:
    windows = () if node is None else node.windows
    rows = [w.row for w in windows]
    later = list(after)
    for window, row in zip(windows, rows, strict=True):
        arriving = [*arriving, *window.args, *(e for e, _ in window.criteria)]
        if row.conditional:
            later += [*window.args, *of_calls(window.calls)]
    parts = [part for e in later if e is not None for part in x.walk(e) if isinstance(part, x.WindowValue)]
    known_only_here = any(part.name.endswith("_event") for part in parts)
    timestamps = any(part.name.endswith("_timestamp") for part in parts)
    several = sum(row.holds for row in rows) > 1
    merged = any(row.merging for row in rows)
    return Keep(
        windows,
        node is not None and node.union,
        tuple(lower.properties(*arriving, *later)),
        tuple(lower.properties(*later)),
        wildcard or known_only_here or lower.reads_event(*later),
        timestamps or any(row.keeps_time for row in rows),
        by_ordinal or several or merged or any(row.by_ordinal for row in rows),
        sum(row.operands for row in rows) + more,
    )
