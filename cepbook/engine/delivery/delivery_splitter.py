"""The `for` clause: deliver the rows of one delivery as several deliveries, by equal keys or row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cepbook.engine.delivery.delta import EMPTY, Rows
from cepbook.engine.delivery.row_layout import RowLayout
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.hashable import key_code
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import ScopeFactory
from cepbook.lang.plan.expressions import BoundExpr

DeliveryKey = Callable[[dict[str, Any]], Any]  # of a row as a dict


def compile_delivery_key(keys: Sequence[BoundExpr], scope_in: ScopeFactory) -> DeliveryKey | None:
    """Return the key function by which deliveries are split; None: each row is a delivery. Errors: Refusal."""
    if not keys:
        return None
    source = SourceWriter()
    names = lower.property_names(*keys)
    scope = scope_in(source).at(
        props=lower.property_codes({name: f"p{i}" for i, name in enumerate(names)}), events={0: "e"}
    )
    with source.block("def parcel(e):", keys[0].span):
        for i, name in enumerate(names):
            source.line(f"p{i} = e.get({source.const(name, 'n')})")
        codes = [key_code(source, lower.value(scope, e), e.type) for e in keys]
        source.line(f"return ({''.join(code + ', ' for code in codes)})")
    key_of: DeliveryKey = source.load()["parcel"]
    return key_of


class DeliverySplitter:
    """Splits deliveries by the key of their rows, in the order in which the keys first appear.

    Without `key`, insert rows are delivered one by one, then remove rows. If a key cannot be computed, `failed` reports
    it and the delivery stays whole.
    """

    def __init__(self, layout: RowLayout, key: DeliveryKey | None, failed: Callable[[Exception], None]) -> None:
        self._layout = layout
        self._key = key
        self._failed = failed

    def parts(self, insert: Rows, remove: Rows) -> list[tuple[Rows, Rows]]:
        """Return the deliveries that replace one delivery."""
        if self._key is None:
            return [*(([row], None) for row in insert or ()), *((None, [row]) for row in remove or ())]
        by_key: dict[Any, tuple[list[Any], list[Any]]] = {}
        try:
            for side, rows in enumerate((insert, remove)):
                for row in rows or ():
                    by_key.setdefault(self._key(self._layout.event(row)), ([], []))[side].append(row)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._failed(failure)
            return [(insert, remove)]
        return [(inserted or None, removed or None) for inserted, removed in by_key.values()]

    def flat(self, flat: list[Any]) -> list[Any]:
        """Split the deliveries in flat records; each keeps its cause."""
        records: list[Any] = []
        for cause, delivery in self._layout.caused(flat):
            time = delivery[0][1]
            deliveries = [(None, None)] if delivery[0][0] == EMPTY else self.parts(*self._layout.sides(delivery))
            for insert, remove in deliveries:
                records += self._layout.flat(time, insert, remove, cause)
        return records

    def pushing(self, push: Callable[[int, Rows, Rows], object]) -> Callable[[int, Rows, Rows], None]:
        """Return a function that calls `push` for each of the split deliveries."""

        def push_split(time: int, insert: Rows, remove: Rows) -> None:
            for sides in self.parts(insert, remove) or [(None, None)]:
                push(time, *sides)

        return push_split
