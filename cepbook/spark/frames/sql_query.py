"""Queries of several steps over a DataFrame, analysed by Spark once where that is cheaper.

Each call on a DataFrame analyses its whole plan again. One text of Spark SQL is analysed once, but needs a temporary
view, which costs as much as a few calls. So short queries use calls, and longer ones one text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from cepbook.lazy_imports import DataFrame
from cepbook.spark.task.stream_columns import Sql

_MAX_SINGLE_STEPS = 3  # up to this many, calls are faster than one SQL text


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a query: keep the rows that meet the condition `where`, then select `columns` (none: all).

    With `keys` the columns are those of groups.
    """

    columns: tuple[Sql, ...] = ()
    where: Sql = ""
    keys: tuple[Sql, ...] | None = None

    def after(self, text: str) -> str:
        """Return the query of this step over the rows of `text`, which follows ``from``. Its own braces are doubled."""
        query = f"SELECT {_escaped(', '.join(self.columns) or '*')} FROM {text}"
        if self.where:
            query += f" WHERE {_escaped(self.where)}"
        return f"{query} GROUP BY {_escaped(', '.join(self.keys))}" if self.keys else query


def _column_name(column: Sql) -> str:
    """Return the name of a column that is a name, or has one without quotes; else ""."""
    match = re.fullmatch(r"(?:.* AS )?(\w+)", column, re.DOTALL)
    return "" if match is None else match.group(1)


def _escaped(text: Sql) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True)
class SqlQuery:
    """The rows of `source`, and the steps to apply to them."""

    source: DataFrame
    steps: tuple[_Step, ...] = ()

    def select(self, *columns: Sql) -> SqlQuery:
        """Return a query that selects these columns."""
        last = self.steps[-1] if self.steps else None
        if last is not None and not last.columns:
            return replace(self, steps=(*self.steps[:-1], replace(last, columns=columns)))
        if last is not None and not last.where and last.keys is None:
            named = {_column_name(column): column for column in last.columns}
            if named.keys() >= set(columns):  # some of those that were selected
                return replace(self, steps=(*self.steps[:-1], _Step(tuple(named[column] for column in columns))))
        return self._then(_Step(columns))

    def where(self, condition: Sql) -> SqlQuery:
        """Return a query that keeps the rows for which the condition is true."""
        return self._then(_Step(where=condition))

    def grouped(self, keys: Sequence[Sql], columns: Sequence[Sql]) -> SqlQuery:
        """Return a query with a row per group: its keys, and these columns."""
        return self._then(_Step((*keys, *columns), keys=tuple(keys)))

    def _then(self, step: _Step) -> SqlQuery:
        return replace(self, steps=(*self.steps, step))

    @cached_property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        if len(self.steps) > _MAX_SINGLE_STEPS or any(step.keys is not None for step in self.steps):
            return self._as_text()
        frame = self.source
        for step in self.steps:
            frame = frame.where(step.where) if step.where else frame
            frame = frame.selectExpr(*step.columns) if step.columns else frame
        return frame

    def _as_text(self) -> DataFrame:
        first, *others = self.steps
        text = first.after("{source}")
        for step in others:
            text = step.after(f"({text})")
        return self.source.sparkSession.sql(text, source=self.source)
