"""The form of a statement for which there are kernels: one stream, at most one window, groups, counts and sums.

::

    Tick  →  nothing | length(n) | time(p) | groupwin(key)#length(n)  →  groups by key  →  one insert row per event

`cepbook.engine.codegen.kernel_forms` finds the form of a statement, and `VectorizedStatement` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ArgumentForm:
    """The cells of one argument of aggregates: of all events, or of the values of the property `name`.

    `count`, `nulls` and `total` are the places of the cells in the list of a group, None where there is none. A total
    wraps at `bits`; 0 for floats.
    """

    name: str | None
    count: int | None
    nulls: int | None
    total: int | None
    bits: int

    @property
    def floating(self) -> bool:
        return not self.bits


@dataclass(frozen=True, slots=True)
class OutputForm:
    """A column of the output: the property `name` of the event, or ``count``, ``sum`` or ``avg`` of an argument.

    `argument` is the place of the argument among those of the statement.
    """

    kind: Literal["property", "count", "sum", "avg"]
    name: str = ""
    argument: int = 0


@dataclass(frozen=True, slots=True)
class KernelForm:
    """What kernels need to know about a statement.

    `types` are those of the properties that are read. A ``length`` window retains `limit` rows, with `divided` as many
    of each group; a ``time`` window those of the last `limit` clock units. `items` has the parts of a retained event in
    order: ``t`` is its arrival time, ``o`` its ordinal, and any other part the name of a property. With `bare` an item
    is its only part. `key` is the property that tells groups apart. `grouped` says that aggregates are by group, `ends`
    that a group without rows does not exist; `cells` are the cells of a new group.
    """

    types: Mapping[str, str]
    window: Literal["none", "length", "time"]
    limit: int
    divided: bool
    items: tuple[str, ...]
    bare: bool
    key: str | None
    grouped: bool
    ends: bool
    cells: tuple[int | float | None, ...]
    arguments: tuple[ArgumentForm, ...]
    outputs: tuple[OutputForm, ...]

    @property
    def needs_kernels(self) -> bool:
        """True if more is to do than to pass columns on."""
        return self.window != "none" or self.aggregates

    @property
    def aggregates(self) -> bool:
        """True if there are groups or cells."""
        return self.grouped or bool(self.cells)
