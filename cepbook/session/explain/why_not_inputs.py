"""Explains why an event does not enter a statement: contexts, and contained events (``from Basket[items]``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.session.explain.why_not_triggers import ProbeStep

Test = Callable[[str, x.BoundExpr, Mapping[int, Any]], ProbeStep]  # a condition as a stage of this name


def contained_events_step(
    source: nodes.SourceNode, event: Row, inside: Sequence[Row], within: int, test: Test, text: str
) -> ProbeStep:
    """Return the step that tells if the event contains events for the stream `source`.

    `inside` are the contained events before the last where of the brackets; `within` is the number that passes it.
    """
    last = source.contained[-1]
    if not inside:
        return ProbeStep("within", False, text, note="no event is within it")
    if last.where is None:
        return ProbeStep("within", True, text, note=f"{within:,} within it")
    if not within and len(source.contained) == 1:
        step = test("within", last.where, {0: inside[-1], 1: event})
        return replace(step, note=f"true of none of {len(inside):,} within it; the values are those of the last")
    return ProbeStep("within", within > 0, text, note=f"where is true of {within:,} of {len(inside):,} within it")


def contained_where_steps(conditions: Sequence[x.BoundExpr], events: Sequence[Row], test: Test) -> Iterator[ProbeStep]:
    """Yield the conditions of a where clause, each tried on the events for which the previous ones are true."""
    for condition in conditions:
        tried = [(event, test("where", condition, {0: event})) for event in events]
        if any(stage.passed is None for _, stage in tried):
            yield next(stage for _, stage in tried if stage.passed is None)
            return
        passing = [event for event, stage in tried if stage.passed]
        note = f"true of {len(passing):,} of {len(tried):,} events within it"
        example = next((stage for _, stage in reversed(tried) if stage.passed == bool(passing)), None)
        if example is None:
            return
        yield replace(example, note=note if passing or len(tried) == 1 else f"{note}; the values are those of the last")
        events = passing


def no_partition_reason(runtime: Runtime, context: str, type_name: str) -> str:
    """Return what starts partitions, the categories, or the filter that rejects events of this type."""
    source = next((d.source for d in runtime.deployments.values() if context in d.contexts), "")
    levels = runtime.context(context).plan.levels
    reasons = [_unopened(runtime, level, type_name, source) for _, level in levels]
    if len(levels) == 1:
        return reasons[0]
    return "; ".join(f"{name}: {reason}" for (name, _), reason in zip(levels, reasons, strict=True))


def _unopened(runtime: Runtime, level: nodes.ContextLevel, type_name: str, source: str) -> str:
    def text(node: Any) -> str:
        return " ".join(source[node.span.start : node.span.end].split())

    if level.beginning is not None:
        verb = "is initiated by" if level.kind == "overlapping" else "starts with"
        return f"no partition is open: one {verb} `{text(level.beginning)}`"
    if isinstance(level, nodes.CategorySpec):
        named = ", ".join(f"{label}: `{text(condition)}`" for label, condition in level.categories)
        return f"it is of no category ({named})"
    matching = [condition for name, condition in level.filters if runtime.catalog.is_a(type_name, name)]
    filters = ", ".join(f"`{text(condition)}`" for condition in matching if condition is not None)
    return f"the context's filter {filters} rejects it" if filters else "no partition of its key is open"
