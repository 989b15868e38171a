"""Layout of retained events: a tuple of the values that can still be observed, or one bare value.

An item contains, in this order: its ordinal (if events are told apart by it), its arrival time (if a window reads it),
the operands that windows compare, values of ``prior``, the kept properties, the whole event (wildcards). A single
property or event is kept without a tuple:

::

    select avg(delay) from Flight#length(10)                    item  50.0
    select istream origin, delay from Flight#length(10)         item  ()
    select irstream origin, delay from Flight#length(10)        item  ("EWR", 50.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, property_codes
from cepbook.engine.physical.operators import WindowOperator
from cepbook.engine.physical.plan import PhysicalPlan


@dataclass(frozen=True, slots=True)
class EventLayout:
    """The layout of one statement's items. Locals of an arriving event begin with ``p``, of an item with ``q``."""

    # "o" ordinal, "t" time, "w…" operand, "r…" prior value, number of a kept property, or "e" event
    parts: tuple[str, ...]
    properties: tuple[str, ...]
    positions: Mapping[str, int]
    input: int = 0  # the input of the statement that the events come from

    @property
    def bare(self) -> bool:
        """True if an item is a bare value, which no window reads."""
        return len(self.parts) == 1 and (self.parts[0] == "e" or self.parts[0].isdigit())

    @property
    def first_operand(self) -> int:
        return sum(component in ("o", "t") for component in self.parts)

    @property
    def time(self) -> int:
        return self.parts.index("t")

    def arriving(self) -> Mapping[str, str]:
        """Return the local of each property of the arriving event."""
        return {name: f"p{self.positions[name]}" for name in self.positions}

    def retained(self) -> Mapping[str, str]:
        """Return the local of each property of an unpacked item."""
        return {name: f"q{self.positions[name]}" for name in self.properties}

    def pack(self, operands: Sequence[str] = ()) -> str:
        """Return the code of the item of the arriving event, from locals."""
        names = {"t": "now", "e": "e", "o": "o", **{f"w{i}": code for i, code in enumerate(operands)}}
        codes = [names.get(component, f"p{component}") for component in self.parts]
        return codes[0] if self.bare else f"({', '.join(codes)}{',' * (len(codes) == 1)})"

    def unpack(self, source: SourceWriter, item: str) -> None:
        """Write code that unpacks `item` into the ``q`` locals. The code of `item` runs even if it has no parts."""
        if self.parts:
            source.line(self.unpacking(item))
        elif not item.isidentifier():
            source.line(item)

    def unpacking(self, item: str) -> str:
        """Return the line that unpacks `item`."""
        codes = [f"q{component}" for component in self.parts]
        return f"{', '.join(codes)}{',' * (len(codes) == 1 and not self.bare)} = {item}"

    def nothing(self) -> str:
        """Return the code of an item in which everything is null."""
        return "None" if self.bare else f"(None,) * {len(self.parts)}"

    def scope(self, scope: CodeScope, *, retained: bool) -> CodeScope:
        if retained:
            return scope.at(props=property_codes(self.retained(), self.input), events={self.input: "qe"})
        return scope.at(props=property_codes(self.arriving(), self.input), events={self.input: "e"})


class JoinedLayout(EventLayout):
    """The layout of combinations: the items of all inputs in one tuple. Locals of input 1 begin with ``q1_``."""

    inputs: tuple[EventLayout, ...]
    numbered: bool

    def __init__(self, inputs: Sequence[EventLayout], numbered: bool) -> None:
        super().__init__((), (), {})
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "numbered", numbered)

    def locals_of(self, number: int) -> list[str]:
        """Return the locals of the items of an input."""
        return [f"q{number}_{component}" for component in self.inputs[number].parts]

    def place(self, number: int) -> int:
        """Return the index at which the item of an input begins."""
        return sum(len(items.parts) for items in self.inputs[:number])

    def unpack(self, source: SourceWriter, item: str) -> None:
        names = [name for number in range(len(self.inputs)) for name in self.locals_of(number)]
        source.line(f"{', '.join(names)} = {item}")
        if self.numbered:
            source.line(f"qo = ({', '.join(f'q{number}_o' for number in range(len(self.inputs)))})")

    def scope(self, scope: CodeScope, *, retained: bool = True) -> CodeScope:
        props: dict[tuple[int, str], str] = {}
        events: dict[int, str] = {}
        for number, items in enumerate(self.inputs):
            own = {name: f"q{number}_{items.positions[name]}" for name in items.properties}
            props |= property_codes(own, number)
            events[number] = f"q{number}_e"
        return scope.at(props=props, events=events)


def row_layout(steps: PhysicalPlan, needs_ordinal: bool) -> EventLayout:
    """Return the layout of the items that rows are made from."""
    if steps.inputs:
        return JoinedLayout([row_layout(input_, True) for input_ in steps.inputs], needs_ordinal)
    return _of_stage(steps.stages[-1], len(steps.priors), needs_ordinal)


def intermediate_layout(steps: PhysicalPlan) -> EventLayout | None:
    """Return the layout of derived or contained events in which matches are searched; None without these."""
    return _of_stage(steps.stages[1], 0, True) if len(steps.stages) > 2 else None


def arrival_layout(steps: PhysicalPlan) -> EventLayout | None:
    """Return the layout of arriving events of a statement whose rows are made from derived events; else None."""
    return _of_stage(steps.stages[0], 0, True) if len(steps.stages) > 1 else None


def _of_stage(stage: WindowOperator, priors: int, needs_ordinal: bool) -> EventLayout:
    positions = {name: number for number, name in enumerate(stage.properties)}
    components = ["o"] * (needs_ordinal or stage.by_ordinal) + ["t"] * stage.reads_arrival_time
    components += [*(f"w{i}" for i in range(stage.operands)), *(f"r{i}" for i in range(priors))]
    components += [str(positions[name]) for name in stage.retained]
    if stage.retains_event:
        components.append("e")
    return EventLayout(tuple(components), stage.retained, positions)
