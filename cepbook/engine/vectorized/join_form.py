"""The form of a join that arrays can compute: two streams, at most one window each, and properties that are equal.

::

    Tick(price > 50)#length(1000)  a ─┐
                                      ├─►  pairs with a.symbol = b.symbol  →  conditions  →  an insert row per pair
    Quote#time(10 sec)             b ─┘     or events alone (outer joins)

`cepbook.engine.codegen.join_forms` finds the form of a statement, and `VectorizedJoin` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.kernel_form import OutputForm


@dataclass(frozen=True, slots=True)
class JoinStreamForm:
    """A stream of a join: the events that meet `conditions`.

    `types` are those of the properties that conditions and rows read. `window` and `limit` are as in `KernelForm`, or
    the window retains the ``latest`` row of each key, which is the key of the join. Only a unidirectional stream has no
    window. `items` has the parts of a retained event in order, the ordinal first. `makes_rows`: arriving events make
    rows; `alone`: those that meet no event of the other stream, too.
    """

    conditions: tuple[IndexCondition, ...]
    types: Mapping[str, str]
    window: Literal["none", "newest", "period", "latest"]
    limit: int
    items: tuple[str, ...]
    makes_rows: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class JoinForm:
    """The facts of a join that arrays need.

    `keys` are pairs of properties, one of each stream, that must be equal; null equals null if `nulls_meet`. Two events
    that meet `conditions`, or one alone, are a row if they pass `tests`, with the values `outputs`. There a property of
    stream 0 or 1 is a ``matched`` one of this number.
    """

    streams: tuple[JoinStreamForm, JoinStreamForm]
    keys: tuple[tuple[str, str], ...]
    nulls_meet: bool
    conditions: tuple[OutputForm, ...]
    tests: tuple[OutputForm, ...]
    outputs: tuple[OutputForm, ...]

    @property
    def timed(self) -> bool:
        """True if events leave a window with time."""
        return any(stream.window == "period" for stream in self.streams)
