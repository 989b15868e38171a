"""Physical plans as text, for ``%epl show steps``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cepbook.engine.physical.explain_access import explain_access_path
from cepbook.engine.physical.join import JoinOperator
from cepbook.engine.physical.operators import (
    AggregateOperator,
    CycleOperator,
    DeriveOperator,
    EmitOperator,
    Eviction,
    FilterOperator,
    LookupOperator,
    Operator,
    OutputRateOperator,
    PatternOperator,
    ProjectOperator,
    RecognizeOperator,
    ScanOperator,
    UnnestOperator,
    WindowOperator,
)
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.lang.explain.cycles import show_partitions
from cepbook.lang.explain.expressions import display_names, show_expr, source_names, stream_names
from cepbook.lang.explain.pattern import show_pattern
from cepbook.lang.explain.recognize import show_recognize
from cepbook.lang.explain.statements import (
    show_branch,
    show_call,
    show_change,
    show_contained,
    show_output,
    show_subquery,
    show_window,
)
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import KeyRef
from cepbook.lang.plan.nodes import AggregateCall, OutputColumn, source_of

_WIDTH = 9
_LEAVING = {
    Eviction.NONE: "no event leaves",
    Eviction.FIFO: "the oldest event leaves first",
    Eviction.ARBITRARY: "events leave in any order",
}


def explain_operators(name: str, steps: PhysicalPlan, notes: Sequence[str] = ()) -> list[str]:
    """Return lines for the operators of a plan: held events, eviction, state, and reasons.

    `notes` describe generated code and follow the operator that they are about.
    """
    with display_names(streams=_names(steps)):
        lines = [name, *_steps(steps, notes)]
    lines.append(f"  {'state':{_WIDTH}}{_state(steps)}")
    return lines


def _names(steps: PhysicalPlan) -> tuple[str, ...]:
    """Return the names of the streams of a join."""
    if steps.emit.merges is not None:
        return stream_names(steps.emit.merges)
    return () if steps.join is None else source_names([source_of(stream.stream) for stream in steps.join.node.inputs])


def _steps(steps: PhysicalPlan, notes: Sequence[str]) -> Iterator[str]:
    for step in steps.all:
        head, *facts = _shown(step, steps)
        name = type(step).__name__.removesuffix("Operator").lower()
        yield f"  {name:{_WIDTH}}{' ' * (len(name) >= _WIDTH)}{head}"
        if isinstance(step, JoinOperator):
            facts += _joined(step, steps)
        if (isinstance(step, WindowOperator) and step is steps.stages[0]) or (
            isinstance(step, EmitOperator) and steps.emit.merges
        ):
            facts += notes
        yield from (f"  {'':{_WIDTH}}{fact}" for fact in facts)


def _shown(step: Operator, steps: PhysicalPlan) -> Iterator[str]:
    calls = [show_call(call) for call in steps.calls]
    match step:
        case ScanOperator(source):
            with display_names(streams=()):
                where = "" if source.filter is None else f" where {show_expr(source.filter)}"
            nothing = "nothing: one row for each context partition" if steps.context else "nothing"
            head = source.event_type or ("nothing: other statements fill the table" if steps.table else nothing)
            head = head if source.store is None else f"what enters and leaves {source.store.kind} {source.store.name}"
            yield head + where
            if steps.table is not None:
                yield f"a row for each {', '.join(steps.table.keys)}" if steps.table.keys else "one row"
                yield from (f"{name} = {show_call(call)}" for name, call in _calls(steps.table))
            if steps.stages and steps.properties:
                yield f"reads {', '.join(steps.properties)}"
        case PatternOperator(_, pattern):
            yield from show_pattern(pattern)
        case CycleOperator(plan):
            yield f"{len(plan.partitions)} partitions"
            yield from show_partitions(plan)
        case JoinOperator():
            yield f"{len(steps.inputs)} streams" + (", only marked ones make rows" if step.unidirectional else "")
        case WindowOperator():
            yield from _kept(step, steps)
        case UnnestOperator(contained):
            yield from (show_contained(selection).removeprefix("contained ") for selection in contained)
        case DeriveOperator(node):
            yield f"{node.name}: a derived event for each change"
        case RecognizeOperator(node):
            head, *facts = show_recognize(node)
            yield head.removeprefix("recognize ")
            yield from (fact.strip() for fact in facts)
        case FilterOperator(predicate):
            yield show_expr(predicate)
        case AggregateOperator(aggregation):
            keys = f" by {', '.join(map(show_expr, aggregation.keys))}" if aggregation.keys else ""
            yield f"{', '.join(dict.fromkeys(calls)) or 'groups'}{keys}"
            if steps.keeps_relation:
                yield "made anew at each look"
            else:
                yield "made anew from each batch" if steps.resets_aggregates else _LEAVING[steps.eviction]
        case ProjectOperator(projection, having, kind):
            columns = ["*"] * projection.wildcard + [_column(c, steps, calls) for c in projection.columns]
            yield f"{', '.join(columns)} ({kind.replace('_', ' ')})"
            if projection.order_by:
                order = (f"{show_expr(e, calls)}{' desc' if down else ''}" for e, down in projection.order_by)
                yield f"order by {', '.join(order)}"
            if projection.limit is not None:
                yield f"limit {show_expr(projection.limit)}"
            if having is not None:
                yield f"having {show_expr(having, calls)}"
        case OutputRateOperator(output):
            yield from (line.strip().removeprefix("output ") for line in show_output(output))
        case EmitOperator(branches=branches) if branches:
            yield "what no branch takes is delivered"
            for branch in branches:
                where = "" if branch.predicate is None else f" where {show_expr(branch.predicate)}"
                values = ["*"] * branch.wildcard + [_column(c, steps, calls) for c in branch.columns]
                yield f"into {branch.insert.target}: {', '.join(values)}{where}"
        case EmitOperator(merges=merges) if merges is not None:
            yield f"changes {merges.target.kind} {merges.target.name}, all at once behind the last row"
            yield from () if step.target_path is None else explain_access_path(step.target_path, merges.target)
            yield from (line for branch in merges.branches for line in show_branch(branch))
        case EmitOperator(changes=changes) if changes:
            yield f"changes the event before any statement sees it: {', '.join(show_change(c) for c in changes)}"
        case EmitOperator(selector, insert, assigned):
            into = "" if insert is None else f", {insert.selector} into {insert.target}"
            sets = "" if not assigned else f", sets {', '.join(sorted(assigned))}"
            yield "nobody is told of its changes" if steps.table else f"delivers {selector}{into}{sets}"
        case LookupOperator(subquery):
            yield show_subquery(subquery)
            yield from _read(step, steps)


def _calls(table: StoreType) -> Iterator[tuple[str, AggregateCall]]:
    """Yield the aggregation columns of a table."""
    for name, call in table.calls.items():
        assert isinstance(call, AggregateCall)
        yield name, call


def _joined(join: JoinOperator, steps: PhysicalPlan) -> Iterator[str]:
    """Yield the streams of a join, and how an event of each finds those of the others."""
    names = [name or f"[{number}]" for number, name in enumerate(_names(steps))]
    for number, (node, own) in enumerate(zip(join.node.inputs, steps.inputs, strict=True)):
        words = ([node.kind] if number else []) + ["unidirectional"] * node.unidirectional
        with display_names(streams=()):
            head, *_ = _shown(own.scan, own)
            facts = [fact for stage in own.stages for fact in _kept(stage, own)]
        yield f"{' '.join([f'{names[number]}:', *words])} {head}: {facts[0] if facts else 'nothing is facts'}"
        of_trigger = [join.of_target] if number and steps.on_select is not None else []
        for path in of_trigger if steps.on_select is not None else join.reached(number) if join.active[number] else ():
            for fact in explain_access_path(path, _looked_into(path.input, join, steps)):
                yield f"    {names[path.input]} {fact}"


def _looked_into(number: int, join: JoinOperator, steps: PhysicalPlan) -> StoreType | None:
    """Return the store that is input `number`, if its own relation is read."""
    return steps.inputs[number].source.store if number in join.shared or steps.on_select is not None else None


def _read(lookup: LookupOperator, steps: PhysicalPlan) -> Iterator[str]:
    """Yield how the events of a subquery are found."""
    store = steps.source.store
    if lookup.access is not None:
        yield from explain_access_path(lookup.access, store if lookup.shared else None)
    elif store is not None and store.kind == "table":
        every = "aggregates follow the rows that were touched since the last look"
        anew = f"all rows of table {store.name} are looked at each time: it tells nobody of its changes"
        yield every if lookup.follows else anew
    else:
        yield "aggregates move with each event, nothing is looked for"


def _kept(step: WindowOperator, steps: PhysicalPlan) -> Iterator[str]:
    if steps.source.store is not None:
        yield f"nothing of its own: the rows are those of {steps.source.store.kind} {steps.source.store.name}"
        return
    if not step.windows:
        yield "nothing: events pass by"
        return
    how = " (union)" if step.union else " (intersection)" if len(step.holding) > 1 else ""
    yield f"{' '.join(map(show_window, step.windows))}{how}"
    if steps.lazy:
        yield "nobody sees events expire: dropped when somebody looks, one period later at the latest"
    elif any(w.row.timed for w in step.windows):
        yield "the view says when it is due; the clock advances it then"
    if steps.aggregate_only:
        yield "only aggregates show: no event is kept, groups are swapped when the batch is released"


def _column(column: OutputColumn, steps: PhysicalPlan, calls: list[str]) -> str:
    value = column.value
    text = show_expr(steps.keys[value.index] if isinstance(value, KeyRef) else value, calls)
    return text if text == column.name else f"{column.name} = {text}"


def _state(steps: PhysicalPlan) -> str:
    places = ["the partition"] * (steps.context is not None)
    places += ["rows by key"] * (steps.table is not None)
    places += ["the matcher of the pattern"] * isinstance(steps.scan, PatternOperator)
    if steps.cycle is not None:
        return "what waits, a window for each key of a stage, a relation for each partition"
    own = len(steps.inputs) - (0 if steps.join is None else len(steps.join.shared))
    places += ["a view and a relation for each stream"] * (own > 0 and steps.on_select is None)
    if steps.row is not None:
        places += ["the view"] * bool(steps.stages[0].windows or steps.derive or steps.recognizer)
    places += ["a relation"] * (steps.keeps_relation and not (steps.lookup is not None and steps.lookup.shared)) + [
        "those of its subqueries"
    ] * bool(steps.subqueries)
    if steps.aggregate is not None and not steps.keeps_relation:
        places.append("a list of cells for each group" if steps.grouped else "one list of cells")
    if steps.output_rate is not None:
        places.append("the limiter of the output clause")
    return ", ".join(places) or "none of its own"
