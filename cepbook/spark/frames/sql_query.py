"""Derived tables: what Spark is to do with rows, step by step, of which a plan is made when all steps are known.

As DataFrames steps are analysed one by one, each with those before it. As one text of Spark SQL they are analysed once,
for which the rows need a name in Spark's catalog for a moment: that takes as long as some steps do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cepbook.spark.lazy_types import DataFrame
from cepbook.spark.task.stream_columns import Sql

_FEW = 3  # steps that take less time by themselves


@dataclass(frozen=True, slots=True)
class _Step:
    """Rows of those before it: those of which the condition `where` is true, and their `columns` (none: all), or these
    of each group by the `keys`.
    """

    columns: tuple[Sql, ...] = ()
    where: Sql = ""
    keys: tuple[Sql, ...] | None = None

    def after(self, text: str) -> str:
        """The query for these rows; `text` stands behind ``from``, for those before. Braces of its own are doubled."""
        found = f"SELECT {_doubled(', '.join(self.columns) or '*')} FROM {text}"
        if self.where:
            found += f" WHERE {_doubled(self.where)}"
        return f"{found} GROUP BY {_doubled(', '.join(self.keys))}" if self.keys else found


def _name(column: Sql) -> str:
    """What a column is called that was given a name without quotes, or is a name."""
    found = re.fullmatch(r"(?:.* AS )?(\w+)", column, re.DOTALL)
    return "" if found is None else found.group(1)


def _doubled(text: Sql) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class SqlQuery:
    """The rows of `source`, and the steps that are done with them."""

    source: DataFrame
    steps: tuple[_Step, ...] = ()

    def select(self, *columns: Sql) -> SqlQuery:
        """These columns of each row."""
        last = self.steps[-1] if self.steps else None
        if last is not None and not last.columns:
            return replace(self, steps=(*self.steps[:-1], replace(last, columns=columns)))
        if last is not None and not last.where and last.keys is None:
            named = {_name(column): column for column in last.columns}
            if named.keys() >= set(columns):  # some of those that were selected
                return replace(self, steps=(*self.steps[:-1], _Step(tuple(named[column] for column in columns))))
        return self._then(_Step(columns))

    def where(self, condition: Sql) -> SqlQuery:
        """The rows of which the condition is true."""
        return self._then(_Step(where=condition))

    def grouped(self, keys: Sequence[Sql], columns: Sequence[Sql]) -> SqlQuery:
        """A row for each group: its keys, and these columns of it."""
        return self._then(_Step((*keys, *columns), keys=tuple(keys)))

    def _then(self, step: _Step) -> SqlQuery:
        return replace(self, steps=(*self.steps, step))

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if len(self.steps) > _FEW or any(step.keys is not None for step in self.steps):
            return self._as_text()
        found = self.source
        for step in self.steps:
            found = found.where(step.where) if step.where else found
            found = found.selectExpr(*step.columns) if step.columns else found
        return found

    def _as_text(self) -> DataFrame:
        first, *others = self.steps
        text = first.after("{source}")
        for step in others:
            text = step.after(f"({text})")
        return self.source.sparkSession.sql(text, source=self.source)
