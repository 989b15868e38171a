"""Cycle queries as text."""

from __future__ import annotations

from collections.abc import Iterator

from cepbook.lang.explain.expressions import show_expr as show
from cepbook.lang.plan.cycles import Correlation, CycleStage, StreamPartition
from cepbook.lang.plan.nodes import CycleStatement


def show_partitions(statement: CycleStatement) -> Iterator[str]:
    """Yield the partitions with their stages, the correlation, and when a cycle is evaluated."""
    for partition in statement.partitions:
        yield from _partition(partition)
    if statement.correlation is not None:
        yield from _correlation(statement.correlation, statement)
    if statement.every is not None:
        yield f"a cycle every {statement.every} ms, and for no other cause"
    else:
        yield "a cycle as soon as waiting events weigh 1, rows wait in a window, or one is of age"
    if statement.fills:
        yield "sliding windows take what there is room for in one cycle"
    for name, _, rows in statement.tables:
        yield f"table {name}, of {len(rows)} rows at first"


def _partition(node: StreamPartition) -> Iterator[str]:
    weight = "" if node.weight == 1.0 else f", each weighs {node.weight:g}"
    age = "" if node.time is None else f", as old as {node.time} says"
    yield f"partition {node.source.alias} of {node.source.event_type}{weight}{age}"
    if node.source.filter is not None:
        yield f"  events that pass {show(node.source.filter)}"
    for number, stage in enumerate(node.stages):
        where = "" if stage.where is None else f" that pass {show(stage.where)}"
        if number:
            yield f"  rows that are {stage.takes} there{where}"
        yield f"  {show_cycle_stage(stage)}"


def show_cycle_stage(node: CycleStage) -> str:
    window = node.window
    parts = [f"{window.name}({window.size}{' ms' if window.row.timed else ''}"]
    parts += [] if window.at_most is None else [f", max {window.at_most}"]
    parts += [] if window.column is None else [f", by {window.column}"]
    parts += [f", one of each {', '.join(window.update_group)}"] * bool(window.update_group)
    text = "".join(parts) + ")"
    text += f" for each {', '.join(node.keys)}" if node.keys else ""
    text += ", kept when empty" if node.pinned else ""
    for aggregate in node.aggregates:
        text += f", {aggregate.alias} = {aggregate.name}({aggregate.column})" + (
            "" if aggregate.retracts else " of all that entered"
        )
    return text


def _correlation(node: Correlation, statement: CycleStatement) -> Iterator[str]:
    aliases = [str(partition.source.alias) for partition in statement.partitions]
    yield "correlated by " + ", ".join(f"{aliases[n]}.{column}" for n, column in enumerate(node.ids))
    for pattern in node.patterns:
        parts = [aliases[n] for n in pattern.required] + [f"not {aliases[n]}" for n in pattern.excluded]
        when = "when a required row leaves" if pattern.excluded else "at once"
        yield f"  present({' and '.join(parts)}): {when}"
