"""Retained events: a window keeps tuples of just the columns that can still be observed, or one bare value.

An item is, in this order: engine time of arrival (time windows), an ordinal (where events leave in any order and
an aggregate cares), the kept properties, the whole event (wildcards). One lone part stands without a tuple.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.shape import Shape
from cepbook.engine.rows.source import Source


@dataclass(frozen=True, slots=True)
class Items:
    """How one statement's items are packed. Locals of an arriving event start with ``p``, of a kept one with ``q``."""

    parts: tuple[str, ...]  # "t", "o", "e" or the number of a kept property
    properties: tuple[str, ...]
    positions: Mapping[str, int]

    def arriving(self) -> Mapping[str, str]:
        """Property name -> local, of the arriving event."""
        return {name: f"p{self.positions[name]}" for name in self.positions}

    def retained(self) -> Mapping[str, str]:
        """Property name -> local, of an item taken apart with `unpack`."""
        return {name: f"q{self.positions[name]}" for name in self.properties}

    def pack(self, now: str) -> str:
        """Code of the item of the arriving event."""
        names = {"t": now, "e": "e", "o": "o"}
        codes = [names.get(part, f"p{part}") for part in self.parts]
        return codes[0] if len(codes) == 1 else f"({', '.join(codes)})" if codes else "None"

    def unpack(self, source: Source, item: str) -> None:
        """Code that takes `item` apart into the ``q`` locals."""
        codes = [f"q{part}" for part in self.parts]
        if codes:
            source.line(f"{', '.join(codes)} = {item}")

    def timestamp(self, item: str) -> str:
        """Code of the arrival time of `item`, which has one."""
        return item if len(self.parts) == 1 else f"{item}[0]"

    def scope(self, scope: Scope, *, retained: bool) -> Scope:
        """`scope` for the arriving event or for an unpacked item."""
        if retained:
            return scope.at(props=self.retained(), event="qe")
        return scope.at(props=self.arriving(), event="e")


def items_of(shape: Shape, needs_ordinal: bool) -> Items:
    """The packing for `shape`."""
    positions = {name: number for number, name in enumerate(shape.properties)}
    parts = [str(positions[name]) for name in shape.kept]
    if shape.keeps_event:
        parts.append("e")
    if needs_ordinal:
        parts.insert(0, "o")
    if shape.window_name == "time":
        parts.insert(0, "t")
    return Items(tuple(parts), shape.kept, positions)
