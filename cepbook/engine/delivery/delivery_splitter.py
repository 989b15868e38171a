"""The for-clause: what a statement delivers at once as several deliveries, of equal keys or of one row each."""

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
    """The key of a row by which deliveries are taken apart; None: each row goes alone. Errors: Refusal."""
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
    found: DeliveryKey = source.load()["parcel"]
    return found


class DeliverySplitter:
    """Takes deliveries apart. Rows of one key stay together, first key first; without `key` insert rows come alone, and
    then remove rows. `failed` is told of keys that cannot be computed: then the delivery stays whole.
    """

    def __init__(self, layout: RowLayout, key: DeliveryKey | None, failed: Callable[[Exception], None]) -> None:
        self._layout = layout
        self._key = key
        self._failed = failed

    def parts(self, insert: Rows, remove: Rows) -> list[tuple[Rows, Rows]]:
        """The deliveries in place of one."""
        if self._key is None:
            return [*(([row], None) for row in insert or ()), *((None, [row]) for row in remove or ())]
        found: dict[Any, tuple[list[Any], list[Any]]] = {}
        try:
            for side, rows in enumerate((insert, remove)):
                for row in rows or ():
                    found.setdefault(self._key(self._layout.event(row)), ([], []))[side].append(row)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._failed(failure)
            return [(insert, remove)]
        return [(inserted or None, removed or None) for inserted, removed in found.values()]

    def flat(self, flat: list[Any]) -> list[Any]:
        """Those of a slice as flat records, each with its cause."""
        found: list[Any] = []
        for cause, each in self._layout.caused(flat):
            time = each[0][1]
            parts = [(None, None)] if each[0][0] == EMPTY else self.parts(*self._layout.sides(each))
            for insert, remove in parts:
                found += self._layout.flat(time, insert, remove, cause)
        return found

    def pushing(self, push: Callable[[int, Rows, Rows], object]) -> Callable[[int, Rows, Rows], None]:
        """`push`, called for each part."""

        def apart(time: int, insert: Rows, remove: Rows) -> None:
            for part in self.parts(insert, remove) or [(None, None)]:
                push(time, *part)

        return apart
