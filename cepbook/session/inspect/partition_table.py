"""Context partitions as Python sees them: a table of those that live, and how large their states are."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import pandas as pd

from cepbook.engine.contexts.selectors import PartitionIdentity
from cepbook.engine.runtime import Runtime
from cepbook.lang.explain.expressions import show_expr
from cepbook.lang.plan.catalog import ContextType
from cepbook.lang.plan.context import KeyedSpec, NestedSpec
from cepbook.lang.plan.nodes import CreateContextStatement, CreateContextTreeStatement, KeyedStreams
from cepbook.lang.types import LONG, OBJECT, Type
from cepbook.session.io.result_frames import typed_series, unused_name

TIMES = ("startTime", "endTime")  # the built-in properties that are times
SIZES = ("retained", "groups", "partials")  # events, groups and partial matches, of all statements together


def context_levels(runtime: Runtime, context: str) -> tuple[str, ...]:
    """The names of the levels of a nested context, outermost first; none of any other."""
    return tuple(level.name for level in runtime.catalog.contexts[context].levels)


def flat_properties(properties: Mapping[str, Any], levels: Sequence[str]) -> dict[str, Any]:
    """The built-in properties of one partition without names and ids: those of a level as ``PerDay.key1``."""
    found: dict[str, Any] = {}
    for level in levels:
        of_level = properties.get(level) or {}
        found |= {f"{level}.{name}": value for name, value in of_level.items() if name not in ("id", "name")}
    rest = {k: v for k, v in properties.items() if k not in ("id", "name", "statements", *levels)}
    return {**found, **rest}


def partition_properties(partition: PartitionIdentity) -> dict[str, Any]:
    """As `flat`, of a live partition; those of hash contexts have their ``hash``, too."""
    found: dict[str, Any] = {}
    for step in partition.steps:
        prefix = f"{step.name}." if len(partition.steps) > 1 else ""
        if step.kind == "hash":
            found[f"{prefix}hash"] = step.key
        found |= {f"{prefix}{name}": value for name, value in step.properties.items() if name not in ("id", "name")}
    return found


def key_names(runtime: Runtime, context: str) -> dict[str, str]:
    """What keys are called by people: ``key1`` is ``symbol``, of a level ``PerDay.key1`` is ``PerDay.symbol``.

    Where the streams of a context call it otherwise, both names; of a key that is no property its expression.
    """
    plan = next(
        (
            each
            for deployment in runtime.deployments.values()
            for each in deployment.plan.statements
            if isinstance(each, CreateContextStatement | CreateContextTreeStatement) and each.context.name == context
        ),
        None,
    )
    if plan is None:
        return {}
    if isinstance(plan.spec, NestedSpec):
        return {
            f"{level}.{key}": f"{level}.{name}"
            for level, spec in plan.spec.levels
            for key, name in _key_names(spec).items()
        }
    return _key_names(plan.spec)


def _key_names(spec: object) -> dict[str, str]:
    keyed = spec.streams if isinstance(spec, KeyedSpec) else spec
    if not isinstance(keyed, KeyedStreams):
        return {}
    texts = [[show_expr(key) for key in stream.keys] for stream in keyed.streams]
    names = [" or ".join(dict.fromkeys(each)) for each in zip(*texts, strict=True)]
    taken = {"id", *TIMES} | {name for name in names if names.count(name) > 1}
    return {f"key{i}": f"key{i}" if name in taken else name for i, name in enumerate(names, 1)}


def partitions_frame(runtime: Runtime, context: str, ids: Container[int] | None = None) -> pd.DataFrame:
    """The live partitions (those of `ids`), by id: properties, the ``statements``, and the sizes of their states."""
    running = runtime.context(context)
    found = [partition for partition in running.identities() if ids is None or partition.id in ids]
    types = flat_types(runtime.catalog.contexts[context])
    rows = [partition_properties(partition) for partition in found]
    sizes = partition_sizes(runtime, context, ids)
    users = [statement.name for statement in running.statements if statement is not None]
    data: dict[str, pd.Series[Any]] = {"id": typed_series([partition.id for partition in found], LONG)}
    for name in dict.fromkeys((*types, *(name for row in rows for name in row))):
        data[name] = typed_series([row.get(name) for row in rows], types.get(name, OBJECT))
    data[unused_name("statements", data)] = pd.Series([users] * len(found), dtype="object")
    for size in SIZES:
        data[unused_name(size, data)] = typed_series([sizes.get(p.id, {}).get(size) for p in found], LONG)
    return pd.DataFrame(data)


def partition_sizes(
    runtime: Runtime, context: str, ids: Container[int] | None = None
) -> dict[int, dict[str, int | None]]:
    """By partition id: what the states of the context's statements hold; null where no statement has the like."""
    found: dict[int, dict[str, int | None]] = {}
    for statement in runtime.context(context).statements:
        if statement is None:
            continue
        for state in runtime.state(statement.name, ids, partials=0):
            sizes = found.setdefault(state["partition"], dict.fromkeys(SIZES))
            for name, size in (
                ("retained", state["retained"]),
                ("groups", state["groups"]),
                ("partials", _total(state.get("partials"))),
            ):
                if size is not None:
                    sizes[name] = (sizes[name] or 0) + size
    return found


def _total(partials: Mapping[str, Any] | None) -> int | None:
    return None if partials is None else int(partials["total"])


def flat_types(context: ContextType) -> dict[str, Type]:
    """The types of what `described` gives."""
    found: dict[str, Type] = {}
    for level in context.levels or (context,):
        prefix = f"{level.name}." if context.levels else ""
        if level.kind == "hash":
            found[f"{prefix}hash"] = LONG
        found |= {f"{prefix}{name}": of for name, of in level.properties.items() if name not in ("id", "name")}
    return found
