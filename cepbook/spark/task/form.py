"""What a statement is that needs no engine. Apart from what runs it: who only plans needs neither Spark nor Arrow."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.plan import expressions, nodes

BASE_AGGREGATE = {"count": "number", "sum": "total", "avg": "total", "min": "lowest", "max": "highest"}
"""What aggregates are made of."""


@dataclass(frozen=True, slots=True)
class VectorizedWindow:
    """A statement of one event type: `columns` are its own, each a property or an aggregate.

    Over the last `length` rows; or those of the last `span` (units of the clock, as are others); or batches of the
    `period` on the grid through `reference`: then `clock` is the property that must be the event's time.
    """

    event_type: str
    keys: tuple[str, ...]
    filter: expressions.BoundExpr | None
    columns: tuple[str | nodes.AggregateCall, ...]
    length: int = 0
    span: int = 0
    period: int = 0
    reference: int = 0
    clock: str | None = None

    @property
    def reason(self) -> str:
        """What is done, in words."""
        of = f" of each {'+'.join(self.keys)}" if self.keys else ""
        if self.clock is not None:
            return f"whole numbers over batches{of}: Spark's own groups"
        last = f"the last {self.length} events" if self.length else f"the last {self.span / 1000:g} s"
        return f"aggregates over {last}{of}, by columns"
