"""Selection of context partitions: `ById`, `ByKey`, `ByHash`, `ByCategory`, `ByProperties`, `Nested`, and plain Python
values: an id or several ids, a dict of property values, a function of the properties.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from numbers import Integral
from typing import Any, SupportsInt, TypeGuard

from cepbook.argument_checks import caller_stacklevel, describe_value
from cepbook.engine.contexts import selectors as engine
from cepbook.engine.contexts.context import select_partitions
from cepbook.engine.contexts.selectors import ByCategory, ByHash, ById, ByKey, ByProperties, Nested
from cepbook.engine.delivery.delta import Row
from cepbook.engine.runtime import Runtime
from cepbook.errors import MissingRowsWarning, UsageError, exception_text, hint_line
from cepbook.session.inspect.partition_table import flat_types, partition_properties

__all__ = ["ByCategory", "ByHash", "ById", "ByKey", "ByProperties", "Nested"]

NO_ROWS_TEXT = "keeps no rows: no data window"
Selector = engine.Selector | int | Collection[int] | Mapping[str, Any] | Callable[[Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True)
class _ByValues(engine.Selector):
    """Partitions with these property values, named as in the table of partitions."""

    values: Mapping[str, Any]

    def chooses(self, partition: engine.PartitionIdentity) -> bool:
        properties = {"id": partition.id, **partition_properties(partition)}
        return all(name in properties and properties[name] == value for name, value in self.values.items())


def selected_rows(
    runtime: Runtime, statement: str, selector: Selector | None, *, instead: str = "`cep.changes({!r})` has"
) -> list[Row]:
    """Return the rows of a statement's iterator, of the partitions in `selector` (None: all), by id.

    Issues a MissingRowsWarning if there are none because the statement keeps no rows; `instead` is what has the rows
    that it delivered. Raises UsageError if the statement has no context, and as `engine_selector` does.
    """
    running = runtime.statement(statement)
    if selector is None:
        rows = runtime.iterate(statement)
    else:
        context = running.steps.context
        chosen = ById() if context is None else engine_selector(runtime, context, selector)  # refused without a context
        rows = [row for _, some in runtime.iterate_partitions(statement, chosen) for row in some]
    if not rows and not running.keeps_rows:
        hint = f"{instead.format(statement)} the rows that it delivered"
        if running.plan.projection is not None:
            hint += "; with a data window, such as `#keepall`, or `@IterableUnbound` it keeps rows"
        text = f"`{statement}` {NO_ROWS_TEXT}\n  hint: {hint}"
        warnings.warn(text, MissingRowsWarning, stacklevel=caller_stacklevel())
    return rows


def selected_ids(runtime: Runtime, context: str, selector: Selector) -> Set[int]:
    """Return the ids of the partitions in `selector`. Raises as `engine_selector` does."""
    return select_partitions(engine_selector(runtime, context, selector), runtime.context(context))


def engine_selector(runtime: Runtime, context: str, selector: Selector) -> engine.Selector:
    """Return the engine's selector. Raises UsageError for an unknown property and for other objects."""
    if isinstance(selector, engine.Selector):
        return selector
    if _is_id(selector):
        return ById(int(selector))
    if isinstance(selector, Mapping):
        return _by_values(runtime, context, selector)
    if callable(selector):
        return ByProperties(_reporting(selector))
    if isinstance(selector, Collection) and not isinstance(selector, str):
        ids = list(selector)
        if all(map(_is_id, ids)):
            return ById(*map(int, ids))
    raise UsageError(
        f"{describe_value(selector)} selects no context partitions\n"
        "  hint: give ids, a dict of property values, a function of the properties, or ByKey, ByCategory, Nested …"
    )


def _reporting(fn: Callable[[Mapping[str, Any]], object]) -> Callable[[Mapping[str, Any]], object]:
    def predicate(properties: Mapping[str, Any]) -> object:
        try:
            return fn(properties)
        except Exception as error:
            raise UsageError(f"the selector {describe_value(fn)} failed: {exception_text(error)}") from error

    return predicate


def _is_id(value: object) -> TypeGuard[SupportsInt]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _by_values(runtime: Runtime, context: str, values: Mapping[str, Any]) -> engine.Selector:
    runtime.context(context)  # raises, listing the known contexts
    known = ["id", "name", *flat_types(runtime.catalog.contexts[context])]
    for name in values:
        if name not in known:
            raise UsageError(f"partitions of context `{context}` have no property `{name}`{hint_line(name, known)}")
    return _ByValues({name: value for name, value in values.items() if name != "name" or value != context})
