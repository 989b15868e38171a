"""Binding of alerts: the columns that correlate sources, and which sources must be present or absent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cepbook.errors import nearest_or_known_names
from cepbook.lang import types as t
from cepbook.lang.bind.scope import ModuleScope, type_text
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.cycles import Correlation, PresencePattern
from cepbook.lang.syntax import ast
from cepbook.lang.types import Type

_UNKEYED = t.UNHASHABLE


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """A relation that a select reads under `alias`.

    `partition` is the number of its partition, or None for a table and for the rows of an alert. `columns` is None if
    its stream is unknown.
    """

    alias: str
    type_name: str
    columns: Mapping[str, Type] | None
    partition: int | None = None


RelationDeclarer = Callable[[str, Mapping[str, Type] | None], StoreType]


def bind_alert(
    node: ast.AlertStream, relations: Mapping[str, BoundRelation], declare: RelationDeclarer, module: ModuleScope
) -> Correlation | None:
    """Return the correlation, or None if it was reported. Partitions are numbered in the order of the sources."""
    aliases = [item.source.alias or "" for item in node.sources]
    before = len(module.problems.reported)
    if len(node.sources) < 2:
        fact = "an alert correlates at least two sources"
        hint = "with one stream a select over its partition is enough"
        module.wrong(fact, node.sources[0].span, hint)
    ids = _ids(node.sources, relations, module)
    columns = tuple(_projected(item, aliases, relations, module) for item in node.columns)
    names = [item.alias.text for item in node.columns]
    for item in node.columns:
        if names.count(item.alias.text) > 1:
            hint = "give it another name with as"
            module.report("duplicate-name", f"column `{item.alias.text}` occurs twice", item.alias.span, hint)
    patterns = tuple(_pattern(item, aliases, module) for item in node.patterns)
    if len(module.problems.reported) > before or any(relations[alias].columns is None for alias in aliases):
        return None
    return Correlation(ids, patterns, columns, declare("alert", None), span=node.span)


def _ids(
    sources: Sequence[ast.Correlated], relations: Mapping[str, BoundRelation], module: ModuleScope
) -> tuple[str, ...]:
    """Return the columns that hold the ids, all of one type ("Multi-Stream Correlation": "of the same Data Type")."""
    first: Type | None = None
    for source in sources:
        relation = relations.get(source.source.alias or "")
        type_ = _column(source.column, relation, module)
        if type_ is None:
            continue
        if type_.name in _UNKEYED:
            columns = {} if relation is None else relation.columns or {}
            hint = nearest_or_known_names(None, [name for name, of in columns.items() if of.name not in _UNKEYED])
            module.report("type-mismatch", f"{type_text(type_)} cannot identify events", source.column.span, hint)
        elif first is not None and type_ not in (first, t.NULL) and first != t.NULL:
            fact = f"ids of type {type_text(type_)} are correlated with ids of type {type_text(first)}"
            hint = "ids are of the same type in all sources"
            module.report("type-mismatch", fact, source.column.span, hint)
        first = type_ if first is None else first
    return tuple(source.column.text for source in sources)


def _column(name: ast.Name, relation: BoundRelation | None, module: ModuleScope) -> Type | None:
    if relation is None or relation.columns is None:
        return None
    type_ = relation.columns.get(name.text)
    if type_ is None:
        hint = nearest_or_known_names(name.text, relation.columns)
        module.report("unknown-property", f"no column `{name.text}` in `{relation.alias}`", name.span, hint)
        return t.NULL
    return type_


def _projected(
    node: ast.Projected, aliases: Sequence[str], relations: Mapping[str, BoundRelation], module: ModuleScope
) -> tuple[int, str, str]:
    number = _number(node.source, aliases, module)
    if number is not None:
        _column(node.column, relations.get(node.source.text), module)
    return number or 0, node.column.text, node.alias.text


def _number(name: ast.Name, aliases: Sequence[str], module: ModuleScope) -> int | None:
    if name.text in aliases:
        return aliases.index(name.text)
    hint = nearest_or_known_names(name.text, aliases)
    module.report("unknown-name", f"no source `{name.text}` in this alert", name.span, hint)
    return None


def _pattern(node: ast.Present, aliases: Sequence[str], module: ModuleScope) -> PresencePattern:
    seen: set[str] = set()
    for name in (*node.required, *node.excluded):
        if name.text in seen:
            fact = f"`{name.text}` occurs twice in one present"
            module.report("duplicate-name", fact, name.span, "leave one of them out")
        seen.add(name.text)
    if not node.required:
        module.wrong("a pattern wants at least one source to be present", node.span, "take not away from one of them")
    numbers = [tuple(_number(name, aliases, module) or 0 for name in side) for side in (node.required, node.excluded)]
    return PresencePattern(*numbers, span=node.span)
