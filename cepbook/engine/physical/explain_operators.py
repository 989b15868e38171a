"""Physical plans as text, for ``%epl show steps``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cepbook.engine.physical import operators as op
from cepbook.engine.physical.explain_access import explain_access_path
from cepbook.engine.physical.join import JoinOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.lang.explain import statements
from cepbook.lang.explain.cycles import show_partitions
from cepbook.lang.explain.expressions import display_names, show_expr, source_names, stream_names
from cepbook.lang.explain.pattern import show_pattern
from cepbook.lang.explain.recognize import show_recognize
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.expressions import KeyRef
from cepbook.lang.plan.nodes import AggregateCall, OutputColumn, SourceNode, source_of

_WIDTH = 10
_EVICTION = {
    op.Eviction.NONE: "no event leaves",
    op.Eviction.FIFO: "the oldest event leaves first",
    op.Eviction.ARBITRARY: "events leave in any order",
}


def explain_operators(name: str, steps: PhysicalPlan, notes: Sequence[str] = ()) -> list[str]:
    """Return lines for the operators of a plan: held events, eviction, state, and reasons. `notes` describe generated
    code and follow the operator that they are about.
    """
    with display_names(streams=_names(steps)):
        lines = [name, *_steps(steps, notes)]
    lines.append(f"  {'state':{_WIDTH}}{_state(steps)}")
    return lines


def _names(steps: PhysicalPlan) -> tuple[str, ...]:
    if steps.emit.merges is not None:
        return stream_names(steps.emit.merges)
    return () if steps.join is None else source_names([source_of(stream.stream) for stream in steps.join.node.inputs])


def _steps(steps: PhysicalPlan, notes: Sequence[str]) -> Iterator[str]:
    for step in steps.all:
        head, *facts = _shown(step, steps)
        name = re.sub(r"\B(?=[A-Z])", " ", type(step).__name__.removesuffix("Operator")).lower()
        yield f"  {name:{_WIDTH}}{' ' * (len(name) >= _WIDTH)}{head}"
        if isinstance(step, JoinOperator):
            facts += _joined(step, steps)
        first = isinstance(step, op.WindowOperator) and step is steps.stages[0]
        if first or (isinstance(step, op.EmitOperator) and steps.emit.merges):
            facts += notes
        yield from (f"  {'':{_WIDTH}}{fact}" for fact in facts)


def _shown(step: op.Operator, steps: PhysicalPlan) -> Iterator[str]:
    calls = [statements.show_call(call) for call in steps.calls]
    match step:
        case op.ScanOperator(source):
            yield from _scan(source, steps)
        case op.PatternOperator(_, pattern):
            yield from show_pattern(pattern)
        case op.CycleOperator(plan):
            yield f"{len(plan.partitions)} partitions"
            yield from show_partitions(plan)
        case JoinOperator():
            yield f"{len(steps.inputs)} streams" + (
                ", only unidirectional ones make rows" if step.unidirectional else ""
            )
        case op.WindowOperator():
            yield from _kept(step, steps)
        case op.UnnestOperator(contained):
            yield from (statements.show_contained(selection).removeprefix("contained ") for selection in contained)
        case op.DeriveOperator(node):
            yield f"{node.name}: a derived event for each change"
        case op.RecognizeOperator(node):
            head, *facts = show_recognize(node)
            yield head.removeprefix("recognize ")
            yield from (fact.strip() for fact in facts)
        case op.FilterOperator(predicate):
            yield show_expr(predicate)
        case op.AggregateOperator(aggregation):
            keys = f" by {', '.join(map(show_expr, aggregation.keys))}" if aggregation.keys else ""
            yield f"{', '.join(dict.fromkeys(calls)) or 'groups'}{keys}"
            if steps.keeps_relation:
                yield "computed at each lookup"
            else:
                yield "computed afresh for each batch" if steps.resets_aggregates else _EVICTION[steps.eviction]
        case op.ProjectOperator(projection, having, kind):
            columns = ["*"] * projection.wildcard + [_column(c, steps, calls) for c in projection.columns]
            yield f"{', '.join(columns)} ({kind.replace('_', ' ')})"
            yield from statements.show_arrangement(projection, calls)
            if having is not None:
                yield f"having {show_expr(having, calls)}"
        case op.OutputRateOperator(output):
            yield from (line.strip().removeprefix("output ") for line in statements.show_output(output))
        case op.EmitOperator():
            yield from _emit(step, steps, calls)
        case op.LookupOperator(subquery):
            yield statements.show_subquery(subquery)
            yield from _read(step, steps)


def _scan(source: SourceNode, steps: PhysicalPlan) -> Iterator[str]:
    with display_names(streams=()):
        where = "" if source.filter is None else f" where {show_expr(source.filter)}"
    nothing = "nothing: one row for each context partition" if steps.context else "nothing"
    head = source.event_type or ("nothing: other statements fill the table" if steps.table else nothing)
    head = head if source.store is None else f"changes of {source.store.kind} {source.store.name}"
    yield head + where
    if steps.table is not None:
        yield f"a row for each {', '.join(steps.table.keys)}" if steps.table.keys else "one row"
        yield from (f"{name} = {statements.show_call(call)}" for name, call in _calls(steps.table))
    if steps.stages and steps.properties:
        yield f"reads {', '.join(steps.properties)}"


def _emit(step: op.EmitOperator, steps: PhysicalPlan, calls: list[str]) -> Iterator[str]:
    match step:
        case op.EmitOperator(branches=branches) if branches:
            yield "events that match no branch are delivered"
            for branch in branches:
                where = "" if branch.predicate is None else f" where {show_expr(branch.predicate)}"
                values = ["*"] * branch.wildcard + [_column(c, steps, calls) for c in branch.columns]
                yield f"into {branch.insert.target}: {', '.join(values)}{where}"
        case op.EmitOperator(merges=merges) if merges is not None:
            yield f"changes {merges.target.kind} {merges.target.name}, all at once after the last row"
            yield from () if step.target_path is None else explain_access_path(step.target_path, merges.target)
            yield from (line for branch in merges.branches for line in statements.show_branch(branch))
        case op.EmitOperator(changes=changes) if changes:
            assignments = ", ".join(map(statements.show_change, changes))
            yield f"changes the event before any statement sees it: {assignments}"
        case op.EmitOperator(selector, insert, assigned):
            into = "" if insert is None else f", {insert.selector} into {insert.target}"
            sets = "" if not assigned else f", sets {', '.join(sorted(assigned))}"
            yield "changes are not delivered" if steps.table else f"delivers {selector}{into}{sets}"


def _calls(table: StoreType) -> Iterator[tuple[str, AggregateCall]]:
    for name, call in table.calls.items():
        assert isinstance(call, AggregateCall)
        yield name, call


def _joined(join: JoinOperator, steps: PhysicalPlan) -> Iterator[str]:
    names = [name or f"[{number}]" for number, name in enumerate(_names(steps))]
    for number, (node, own) in enumerate(zip(join.node.inputs, steps.inputs, strict=True)):
        words = ([node.kind] if number else []) + ["unidirectional"] * node.unidirectional
        with display_names(streams=()):
            head, *_ = _shown(own.scan, own)
            facts = [fact for stage in own.stages for fact in _kept(stage, own)]
        yield f"{' '.join([f'{names[number]}:', *words])} {head}: {facts[0] if facts else 'keeps no events'}"
        of_trigger = [join.of_target] if number and steps.on_select is not None else []
        for path in of_trigger if steps.on_select is not None else join.reached(number) if join.active[number] else ():
            shares = path.input in join.shared or steps.on_select is not None
            for fact in explain_access_path(path, steps.inputs[path.input].source.store if shares else None):
                yield f"    {names[path.input]} {fact}"


def _read(lookup: op.LookupOperator, steps: PhysicalPlan) -> Iterator[str]:
    store = steps.source.store
    if lookup.access is not None:
        yield from explain_access_path(lookup.access, store if lookup.shared else None)
    elif store is not None and store.kind == "table":
        every = "aggregates are updated from the rows changed since the last lookup"
        anew = f"all rows of table {store.name} are read at each lookup: a table does not report its changes"
        yield every if lookup.follows else anew
    else:
        yield "aggregates are updated by each event; no rows are looked up"


def _kept(step: op.WindowOperator, steps: PhysicalPlan) -> Iterator[str]:
    if steps.source.store is not None:
        yield f"no copies: the rows are those of {steps.source.store.kind} {steps.source.store.name}"
        return
    if not step.windows:
        yield "no events"
        return
    how = " (union)" if step.union else " (intersection)" if len(step.holding) > 1 else ""
    yield f"{' '.join(map(statements.show_window, step.windows))}{how}"
    if steps.lazy:
        yield "nobody sees events expire: they are evicted on arrival or inspection, or one period later"
    elif any(w.row.timed for w in step.windows):
        yield "the clock advances the view when an event is due"
    if steps.aggregate_only:
        yield "keeps only aggregates: groups are replaced when the batch is released"


def _column(column: OutputColumn, steps: PhysicalPlan, calls: list[str]) -> str:
    value = column.value
    text = show_expr(steps.keys[value.index] if isinstance(value, KeyRef) else value, calls)
    return text if text == column.name else f"{column.name} = {text}"


def _state(steps: PhysicalPlan) -> str:
    places = ["the partition"] * (steps.context is not None)
    places += ["rows by key"] * (steps.table is not None)
    places += ["the matcher of the pattern"] * isinstance(steps.scan, op.PatternOperator)
    if steps.cycle is not None:
        return "waiting events, one window per key of a stage, one relation per partition"
    own = len(steps.inputs) - (0 if steps.join is None else len(steps.join.shared))
    places += ["one view and one relation per stream"] * (own > 0 and steps.on_select is None)
    if steps.row is not None:
        places += ["the view"] * bool(steps.stages[0].windows or steps.derive or steps.recognizer)
    places += ["a relation"] * (steps.keeps_relation and not (steps.lookup is not None and steps.lookup.shared)) + [
        "those of its subqueries"
    ] * bool(steps.subqueries)
    if steps.aggregate is not None and not steps.keeps_relation:
        places.append("one list of cells per group" if steps.grouped else "one list of cells")
    if steps.output_rate is not None:
        places.append("the limiter of the output clause")
    return ", ".join(places) or "none"
