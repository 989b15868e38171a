"""The form of a `match_recognize` whose conditions arrays can evaluate, for all rows of a batch at once.

Its conditions read the row itself and rows just before it in the partition, but no rows of the match. So it depends on
the row alone which variables accept it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.kernel_form import OutputForm


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition: all of `plain`, which compare a property with constants, and all of `computed` are true."""

    plain: tuple[IndexCondition, ...] = ()
    computed: tuple[OutputForm, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasureForm:
    """The property `name` of the last row of a variable, or of the `first` one. Null without such a row. With `fold` it
    is what this function returns for the list of the values in all rows of the variable.
    """

    variable: int
    name: str
    first: bool = False
    fold: Callable[[list[Any]], Any] | None = None


@dataclass(frozen=True, slots=True)
class RecognitionForm:
    """The facts that arrays need.

    `types` are those of the properties that are read. The properties `keys` tell partitions apart. Rows for which
    `admits` is not true are no rows of a partition. `variables` has the test of each variable. The tests read up to
    `back` rows before the row. `measures` are those by name; empty if arrays cannot compute all of them.
    """

    types: Mapping[str, str]
    keys: tuple[str, ...]
    admits: RowTest
    variables: tuple[RowTest, ...]
    back: int
    measures: Mapping[str, MeasureForm]
