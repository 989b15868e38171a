"""The form of a statement for which there are kernels: one stream, at most one window, groups, counts and sums.

::

    Tick  →  nothing | length(n) | time(p) | groupwin(keys)#length(n)  →  groups by keys  →  an insert row per event
                                                                                           that passes having

`cepbook.engine.codegen.kernel_forms` finds the form of a statement, and `VectorizedStatement` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ARRIVAL, ORDINAL, GROUP = ":time", ":ordinal", ":group"  # columns that are no properties
NUMBER_TYPES = {"double": "float64", "int": "int64", "short": "int64", "byte": "int64", "long": "int64"}
KEY_TYPES = {"string", "boolean", "int", "short", "byte", "long"}  # of properties that can tell groups apart
ARRAY_TYPES = {**NUMBER_TYPES, "boolean": "bool", "string": "int64"}  # by type of a property; texts are codes
EXACT = 2**53  # whole numbers below this are exact as floats
NULL = -(2**63)  # stands for null in columns of whole numbers
Comparison = Literal["=", "<", "<=", ">", ">="]
COMPARISONS: dict[str, Comparison] = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
KEPT = 2**62  # the limit of a window that no row leaves
OutputKind = Literal[
    "property", "context", "previous", "matched", "looked_up", "exists", "contains",
    "count", "total", "mean", "least", "greatest", "constant",
    "+", "-", "*", "/", "=", "<", "<=", ">", ">=", "and", "or",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArgumentForm:
    """The cells of one argument of aggregates: of all events, or of the values of the property `name`.

    `count`, `nulls`, `number_cells` and `queues` are the places of the cells in the list of a group; None without such
    a cell. The names of number cells are ``total``, ``least`` and ``greatest``. Over a window, `queues` has the latter
    two: monotonic queues of the values that are extreme, or will be when others have left. A total wraps at `bits`; 0
    for floats.
    """

    name: str | None
    count: int | None
    nulls: int | None
    number_cells: Mapping[str, int]
    queues: Mapping[str, int]
    bits: int

    @property
    def floating(self) -> bool:
        return not self.bits


@dataclass(frozen=True, slots=True)
class OutputForm:
    """A value of each row, or a condition.

    - ``context``: the built-in property `name` of the event's context partition
    - ``property``: the property `name` of the event
    - ``previous``: the same of the event `number` places before it in the window
    - ``matched``: the same of the event that step `number` of a pattern has matched, or of stream `number` of a pair
    - ``looked_up``: the value of subquery `number`
    - ``exists``: of a subquery, whether it has a row; ``contains``: the same, but without a row it may be unknown
    - ``count``, ``total``, ``mean``, ``least``, ``greatest`` of argument `number`
    - ``constant``: the number `constant`
    - ``+``, ``-``, ``*``, ``/``: a double, from two `operands`
    - ``=``, ``<``, ``<=``, ``>``, ``>=`` of two numbers, ``and``, ``or`` of two conditions: null is false
    """

    kind: OutputKind
    name: str = ""
    number: int = 0
    constant: float = 0.0
    operands: tuple[OutputForm, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelForm:
    """The facts of a statement that its kernels need.

    `types` are those of the properties that are read. A window retains the ``newest`` `limit` rows, with `divided` as
    many of each group, or those of the last `limit` clock units (``period``). `items` has the parts of a retained event
    in order: arrival time, ordinal, group, and names of properties. With `bare` an item is its only part. The
    properties `keys` tell groups apart; in a context each partition is a group. `grouped` says that aggregates are by
    group, `keeps_groups` that a group stays when its rows have left. `cells` are those of a new group, None for a
    queue. Rows for which `having` is not true are not delivered.
    """

    types: Mapping[str, str]
    window: Literal["none", "newest", "period"]
    limit: int
    divided: bool
    items: tuple[str, ...]
    bare: bool
    keys: tuple[str, ...]
    grouped: bool
    keeps_groups: bool
    cells: tuple[int | float | None, ...]
    arguments: tuple[ArgumentForm, ...]
    outputs: tuple[OutputForm, ...]
    having: OutputForm | None

    @property
    def needs_kernels(self) -> bool:
        """True if more is to do than to pass columns on."""
        computed = self.having is not None or any(output.kind != "property" for output in self.outputs)
        return self.window != "none" or self.aggregates or computed

    @property
    def aggregates(self) -> bool:
        """True if there are groups or cells."""
        return self.grouped or bool(self.cells)
