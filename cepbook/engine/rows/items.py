"""Retained events: a window keeps tuples of just the columns that can still be observed, or one bare value.

An item is, in this order: engine time of arrival (time windows), an ordinal (where events leave in any order and
an aggregate cares), the kept properties, the whole event (wildcards). One lone part stands without a tuple. On the
general path an item begins with its ordinal and, if a window reads it, the time; then come the operands of windows and
values of ``prior``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.shape import Shape, Stage
from cepbook.engine.rows.source import Source


@dataclass(frozen=True, slots=True)
class Items:
    """How one statement's items are packed. Locals of an arriving event start with ``p``, of a kept one with ``q``."""

    # "t" time, "o" ordinal, "e" event, "w…" operand, "r…" prior value, or the number of a kept property
    parts: tuple[str, ...]
    properties: tuple[str, ...]
    positions: Mapping[str, int]

    def arriving(self) -> Mapping[str, str]:
        """Property name -> local, of the arriving event."""
        return {name: f"p{self.positions[name]}" for name in self.positions}

    def retained(self) -> Mapping[str, str]:
        """Property name -> local, of an item taken apart with `unpack`."""
        return {name: f"q{self.positions[name]}" for name in self.properties}

    def pack(self, now: str, operands: Sequence[str] = ()) -> str:
        """Code of the item of the arriving event."""
        names = {"t": now, "e": "e", "o": "o", **{f"w{i}": code for i, code in enumerate(operands)}}
        codes = [names.get(part, f"p{part}") for part in self.parts]
        return codes[0] if len(codes) == 1 else f"({', '.join(codes)})" if codes else "None"

    def unpack(self, source: Source, item: str) -> None:
        """Code that takes `item` apart into the ``q`` locals."""
        codes = [f"q{part}" for part in self.parts]
        if codes:
            source.line(f"{', '.join(codes)} = {item}")

    @property
    def first_operand(self) -> int:
        """The position of the first operand in an item of the general path."""
        return 2 if "t" in self.parts else 1

    def nothing(self) -> str:
        """Code of an item in which all is null."""
        return f"(None,) * {len(self.parts)}"

    def timestamp(self, item: str) -> str:
        """Code of the arrival time of `item`, which has one."""
        return item if len(self.parts) == 1 else f"{item}[0]"

    def scope(self, scope: Scope, *, retained: bool) -> Scope:
        """`scope` for the arriving event or for an unpacked item."""
        if retained:
            return scope.at(props=self.retained(), event="qe")
        return scope.at(props=self.arriving(), event="e")


def items_of(shape: Shape, needs_ordinal: bool) -> Items:
    """The packing for `shape`, of the items that its rows are made from."""
    if shape.general:
        return _of_stage(shape.stages[-1], len(shape.priors))
    positions = {name: number for number, name in enumerate(shape.properties)}
    parts = [str(positions[name]) for name in shape.kept]
    if shape.keeps_event:
        parts.append("e")
    if needs_ordinal:
        parts.insert(0, "o")
    if shape.window_name == "time":
        parts.insert(0, "t")
    return Items(tuple(parts), shape.kept, positions)


def first_items(shape: Shape) -> Items | None:
    """The packing of the events of a statement whose rows are made from derived events; None without these."""
    return _of_stage(shape.stages[0], 0) if len(shape.stages) > 1 else None


def _of_stage(stage: Stage, priors: int) -> Items:
    positions = {name: number for number, name in enumerate(stage.properties)}
    parts = [*(f"w{i}" for i in range(stage.operands)), *(f"r{i}" for i in range(priors))]
    parts += [str(positions[name]) for name in stage.kept]
    if stage.keeps_event:
        parts.append("e")
    if stage.keeps_time or not parts:  # an item is a tuple in any case
        parts.insert(0, "t")
    return Items(("o", *parts), stage.kept, positions)
