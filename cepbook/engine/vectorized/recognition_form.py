"""The form of a `match_recognize` whose conditions arrays can evaluate, for all rows of a batch at once.

Its conditions read the row itself and rows just before it in the partition, but no rows of the match. So it depends on
the row alone which variables accept it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cepbook.engine.subscriptions.filter_index import IndexCondition
from cepbook.engine.vectorized.kernel_form import OutputForm


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition: all of `plain`, which compare a property with constants, and all of `computed` are true."""

    plain: tuple[IndexCondition, ...] = ()
    computed: tuple[OutputForm, ...] = ()


@dataclass(frozen=True, slots=True)
class MeasureForm:
    """The property `name` of the `first` row of a variable, or else of the last one. Null without such a row."""

    first: bool
    variable: int
    name: str


@dataclass(frozen=True, slots=True)
class RecognitionForm:
    """The facts that arrays need.

    `types` are those of the properties that are read. The properties `keys` tell partitions apart. Rows for which
    `admits` is not true are no rows of a partition. `variables` has the test of each variable. The tests read up to
    `back` rows before the row. `measures` has those that arrays compute, by name.
    """

    types: Mapping[str, str]
    keys: tuple[str, ...]
    admits: RowTest
    variables: tuple[RowTest, ...]
    back: int
    measures: Mapping[str, MeasureForm]
