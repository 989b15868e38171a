"""What became of the events within an event (``from Basket[items]``), for `session.why.fallen`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.session.explain.why_not_triggers import ProbeStep

Test = Callable[[str, x.BoundExpr, Mapping[int, Any]], ProbeStep]  # a condition as a stage of this name


def contained_events_step(
    source: nodes.SourceNode, event: Row, inside: Sequence[Row], within: int, test: Test, text: str
) -> ProbeStep:
    """Whether an event holds events that the stream `source` is made of.

    `inside` are those before the last where of the brackets, `within` is how many pass it.
    """
    last = source.contained[-1]
    if not inside:
        return ProbeStep("within", False, text, note="no event is within it")
    if last.where is None:
        return ProbeStep("within", True, text, note=f"{within:,} within it")
    if not within and len(source.contained) == 1:
        found = test("within", last.where, {0: inside[-1], 1: event})
        return replace(found, note=f"true of none of {len(inside):,} within it; the values are those of the last")
    return ProbeStep("within", within > 0, text, note=f"where is true of {within:,} of {len(inside):,} within it")


def contained_where_steps(parts: Sequence[x.BoundExpr], events: Sequence[Row], test: Test) -> Iterator[ProbeStep]:
    """The conditions of a where clause, each tried on those events within for which the ones before are true."""
    for part in parts:
        tried = [(event, test("where", part, {0: event})) for event in events]
        if any(stage.passed is None for _, stage in tried):
            yield next(stage for _, stage in tried if stage.passed is None)
            return
        fits = [event for event, stage in tried if stage.passed]
        note = f"true of {len(fits):,} of {len(tried):,} events within it"
        shown = next((stage for _, stage in reversed(tried) if stage.passed == bool(fits)), None)
        if shown is None:
            return
        yield replace(shown, note=note if fits or len(tried) == 1 else f"{note}; the values are those of the last")
        events = fits
