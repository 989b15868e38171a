"""Context partitions: the properties of the live ones, and the sizes of their states."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from cepbook.engine.contexts.selectors import PartitionIdentity
from cepbook.engine.runtime import Runtime
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan.catalog import ContextType
from cepbook.lang.plan.nodes import ContextLevel, ContextStatement
from cepbook.lang.types import LONG, Type

TIMES = ("startTime", "endTime")  # built-in properties that are times
SIZES = ("retained", "groups", "partials")  # events, groups and partial matches, of all statements together


def context_levels(runtime: Runtime, context: str) -> tuple[str, ...]:
    """Return the names of the levels of a nested context, outermost first; none for other contexts."""
    return tuple(level.name for level in runtime.catalog.contexts[context].levels)


def flat_properties(properties: Mapping[str, Any], levels: Sequence[str]) -> dict[str, Any]:
    """Return the built-in properties of a partition without names and ids; of a level as ``PerDay.key1``."""
    flat: dict[str, Any] = {}
    for level in levels:
        of_level = properties.get(level) or {}
        flat |= {f"{level}.{name}": value for name, value in of_level.items() if name not in ("id", "name")}
    rest = {k: v for k, v in properties.items() if k not in ("id", "name", "statements", *levels)}
    return {**flat, **rest}


def partition_properties(partition: PartitionIdentity) -> dict[str, Any]:
    """Return the properties of a live partition as `flat_properties` does, with the ``hash`` of hash contexts."""
    properties: dict[str, Any] = {}
    for step in partition.steps:
        prefix = f"{step.name}." if len(partition.steps) > 1 else ""
        if step.kind == "hash":
            properties[f"{prefix}hash"] = step.key
        properties |= {
            f"{prefix}{name}": value for name, value in step.properties.items() if name not in ("id", "name")
        }
    return properties


def key_names(runtime: Runtime, context: str) -> dict[str, str]:
    """Return the user's names of keys: ``key1`` is ``symbol``, in a level ``PerDay.key1`` is ``PerDay.symbol``.

    If the streams of a context use different names, all of them; for a key that is no property, its expression.
    """
    created = (plan for plan in runtime.plans if isinstance(plan, ContextStatement))
    plan = next((plan for plan in created if plan.context.name == context), None)
    if plan is None:
        return {}
    if plan.context.kind == "nested":
        return {
            f"{level}.{key}": f"{level}.{name}" for level, spec in plan.levels for key, name in _key_names(spec).items()
        }
    return _key_names(plan.levels[0][1])


def _key_names(spec: ContextLevel) -> dict[str, str]:
    texts = [[show_expr(key) for key in stream.keys] for stream in spec.keyed_streams]
    names = [" or ".join(dict.fromkeys(alternatives)) for alternatives in zip(*texts, strict=True)]
    taken = {"id", *TIMES} | {name for name in names if names.count(name) > 1}
    return {f"key{i}": f"key{i}" if name in taken else name for i, name in enumerate(names, 1)}


def partition_sizes(
    runtime: Runtime, context: str, ids: Container[int] | None = None
) -> dict[int | None, dict[str, int | None]]:
    """Return the sizes of the states by partition id; null if no statement has such state."""
    sizes_by_partition: dict[int | None, dict[str, int | None]] = {}
    for statement in runtime.context(context).statements:
        if statement is None:
            continue
        for summary in runtime.state(statement.name, ids, partials=0):
            sizes = sizes_by_partition.setdefault(summary["partition"], dict.fromkeys(SIZES))
            for name, size in (
                ("retained", summary["retained"]),
                ("groups", summary["groups"]),
                ("partials", _total(summary.get("partials"))),
            ):
                if size is not None:
                    sizes[name] = (sizes[name] or 0) + size
    return sizes_by_partition


def _total(partials: Mapping[str, Any] | None) -> int | None:
    return None if partials is None else int(partials["total"])


def flat_types(context: ContextType) -> dict[str, Type]:
    """Return the types of `partition_properties`."""
    types: dict[str, Type] = {}
    for level in context.levels or (context,):
        prefix = f"{level.name}." if context.levels else ""
        if level.kind == "hash":
            types[f"{prefix}hash"] = LONG
        types |= {f"{prefix}{name}": type_ for name, type_ in level.properties.items() if name not in ("id", "name")}
    return types
