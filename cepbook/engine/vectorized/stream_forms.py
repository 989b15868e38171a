"""The forms of statements in which events of one stream meet those in the data window of another one.

::

    Tick(price > 50)#length(1000)  a ─┐
                                      ├─►  pairs with equal keys  →  conditions  →  an insert row per pair,
    Quote#time(10 sec)             b ─┘                                             or for events alone (outer joins)

    Tick                           t ─┐
                                      ├─►  pairs with equal keys  →  conditions  →  a value for each t: aggregates,
    (select … from Quote#keepall)    ─┘                                             the only row, whether there is one

`cepbook.engine.codegen.join_forms` finds the form of a join, which `VectorizedJoin` runs;
`cepbook.engine.codegen.lookup_forms` that of a statement with subqueries, which `VectorizedEnrichment` runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.kernel_form import ArgumentForm, KernelForm, OutputForm


@dataclass(frozen=True, slots=True)
class StreamForm:
    """A stream of the events that meet `conditions`.

    `types` are those of the properties that are read. `window` and `limit` are as in `KernelForm`, or the window
    retains the ``latest`` row of each key by which it is looked up. `items` has the parts of a retained event in order,
    the ordinal first.
    """

    conditions: tuple[IndexCondition, ...]
    types: Mapping[str, str]
    window: Literal["none", "newest", "period", "latest"]
    limit: int = 0
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairForm:
    """The pairs of events of two streams, number 0 and 1, that meet.

    `keys` are pairs of properties, one of each stream, that must be equal; null equals null if `nulls_meet`. In the
    further `conditions` a property is a ``matched`` one of stream 0 or 1.
    """

    keys: tuple[tuple[str, str], ...]
    nulls_meet: bool
    conditions: tuple[OutputForm, ...]


@dataclass(frozen=True, slots=True)
class JoinForm:
    """The facts of a join of two streams that arrays need. Only a unidirectional stream has no window.

    Events of the streams that are `active` make rows when they arrive, from pairs and, of the streams that are `alone`,
    from events without a partner. These are rows if they pass `tests`, with the values `outputs`; there a property is a
    ``matched`` one.
    """

    streams: tuple[StreamForm, StreamForm]
    pairs: PairForm
    active: tuple[bool, bool]
    alone: tuple[bool, bool]
    tests: tuple[OutputForm, ...]
    outputs: tuple[OutputForm, ...]

    @property
    def timed(self) -> bool:
        """True if events leave a window with time."""
        return any(stream.window == "period" for stream in self.streams)


@dataclass(frozen=True, slots=True)
class LookupForm:
    """A subquery over `stream`: for an event of the statement (number 0) the value `result` of the rows (number 1) that
    it meets.

    The result is ``exists``, ``contains``, a ``matched`` property of the only row, or aggregates of `arguments`;
    `cells` are those before the first row (see `KernelForm`).
    """

    stream: StreamForm
    pairs: PairForm
    result: OutputForm
    arguments: tuple[ArgumentForm, ...]
    cells: tuple[int | float | None, ...]


@dataclass(frozen=True, slots=True)
class EnrichmentForm:
    """A statement without a data window: an event of `stream` is a row with the values `outputs` if it passes `tests`.
    There a property is a ``matched`` one of number 0, and the values of subqueries are ``looked_up``.
    """

    stream: StreamForm
    lookups: tuple[LookupForm, ...]
    tests: tuple[OutputForm, ...]
    outputs: tuple[OutputForm, ...]

    @property
    def timed(self) -> bool:
        """True if events leave a window with time."""
        return any(lookup.stream.window == "period" for lookup in self.lookups)

    @property
    def aggregates(self) -> bool:
        """True if values of events are aggregated, for which there must be kernels."""
        return any(argument.name for lookup in self.lookups for argument in lookup.arguments)


VectorizedForm = KernelForm | JoinForm | EnrichmentForm  # of a statement
