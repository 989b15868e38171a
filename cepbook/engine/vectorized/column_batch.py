"""What the engine asks of columns before lists of values are made of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.subscriptions.filter_index import IndexCondition


class FilterableColumns(Mapping[str, list[Any]]):
    """Columns of a slice that can be asked before lists are made of them: each is made when it is first read."""

    @abstractmethod
    def passing(self, ways: Sequence[Sequence[IndexCondition]]) -> FilterMask | None:
        """Which events meet all conditions of one of `ways`; None where nothing can be told."""


@dataclass(frozen=True, slots=True)
class FilterMask:
    """What `Columns.passing` found: `flags` with a byte for each event, `places` of those that pass, their `times` and
    `columns`. Where not `exact`, some of them may not meet what could not be told.
    """

    flags: bytes
    places: Sequence[int]
    times: list[int]
    columns: FilterableColumns
    exact: bool
