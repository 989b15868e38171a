"""Contexts whose partitions are known beforehand: categories and hash buckets, which are dealt out among the tasks.

An event goes to the tasks that have partitions of its. Which these are Spark works out: conditions of categories as
expressions of its own, hashes with the function that the engine has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cepbook.engine.contexts.hashing import bucket, hasher
from cepbook.lang.plan import context as contexts
from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.references import event_types_read
from cepbook.lang.types import EXACT_KEY_TYPES
from cepbook.spark.frames.sql_conditions import is_expressible
from cepbook.spark.plan.key_propagation import key_copies, mutated_properties
from cepbook.spark.plan.partitioning import context_windows_inserted_into, partition_local_stores, partition_obstacle

_HASHED = frozenset({"consistent_hash_crc32", "hash_code"})


@dataclass(frozen=True, slots=True)
class ContextShards:
    """The outermost level `spec` of the context `context`, whose partitions are dealt out."""

    context: str
    spec: contexts.CategorySpec | contexts.HashSpec
    inputs: tuple[tuple[str, int], ...] = ()  # of hashes: which of its streams an input type is of

    @property
    def reason(self) -> str:
        """What divides the tasks, in words."""
        what = "categories" if isinstance(self.spec, contexts.CategorySpec) else "hash buckets"
        return f"the {what} of the context {self.context} are divided among the tasks"


def context_shards_of(line: StatementDependencies, catalog: Catalog, ticks: bool) -> ContextShards | str | None:
    """The partitions by which the tasks of `line` can be divided, why they cannot, or None without such a context."""
    trees = [c for c in line.contexts if isinstance(c, nodes.CreateContextTreeStatement)]
    level = _outermost(trees[0]) if len(trees) == len(line.contexts) == 1 else None
    if level is None:
        return None
    context = trees[0]
    name = context.context.name
    read = [level.event_type] if isinstance(level, contexts.CategorySpec) else [s.event_type for s in level.streams]
    created = [s for s in line.stores if isinstance(s, nodes.CreateWindowStatement)]
    for statement in (*line.readers, *created):
        if statement.context != name:
            return f"{statement.name}, which belongs to it, does not run in the context {name}"
        if isinstance(statement, nodes.CycleStatement) or statement.drop:
            return f"{statement.name} sees the events of all partitions"
        refusal = partition_obstacle(statement, context, read, line, catalog)
        if refusal is not None:
            return refusal
    own = partition_local_stores(line, catalog)
    inserted = {i.target for reader in line.readers for i in reader.inserts} - own
    if any(catalog.is_a(target, each) for target in inserted for each in event_types_read((line.readers, context))):
        return f"what it inserts is divided by the context {name} only as it comes"
    if isinstance(level, contexts.CategorySpec):
        if line.stores:
            return f"what one category of the context {name} inserts is in all those that it belongs to"
        conditions = [level.filter, *(condition for _, condition in level.categories)]
        if not all(e is None or is_expressible(e) for e in conditions):
            return f"the categories of the context {name} have conditions that Spark does not express itself"
        return ContextShards(name, level)
    for stream in level.streams:
        whole = all(isinstance(a, expressions.Prop) and a.type.name in EXACT_KEY_TYPES for a in stream.args)
        if stream.function not in _HASHED or not whole:
            return f"the hashes of the context {name} are not of properties by a built-in function"
    for window in context_windows_inserted_into(line, context):
        target, like = window.store.name, window.store.partitioned_as or ""
        args = next((stream.args for stream in level.streams if catalog.is_a(like, stream.event_type)), ())
        if not args or not all(_keeps(target, a.name, line, catalog) for a in args if isinstance(a, expressions.Prop)):
            return f"what is inserted into {target} is divided by the context {name} only as it comes"
    if level.preallocate and ticks:
        return f"all partitions of the context {name} live from the beginning (preallocate)"
    inputs = []
    for each in line.inputs:
        of = [i for i, stream in enumerate(level.streams) if catalog.is_a(each, stream.event_type)]
        if len(of) > 1:
            return f"events of {each} are hashed in several ways"
        inputs += [(each, i) for i in of]
    return ContextShards(name, level, tuple(inputs))


def _keeps(window: str, name: str, line: StatementDependencies, catalog: Catalog) -> bool:
    """Whether a property of the rows of a named window is that of the event that a row was made of."""
    own = {each: frozenset({name}) for each in line.inputs}
    written = [each for reader in line.readers for each in key_copies(reader, own, catalog)]
    kept = all(name in copies for target, copies in written if target == window)
    return kept and name not in mutated_properties(window, line, catalog)


def _outermost(context: nodes.CreateContextTreeStatement) -> contexts.CategorySpec | contexts.HashSpec | None:
    spec = context.spec
    first = spec.levels[0][1] if isinstance(spec, contexts.NestedSpec) else spec
    return first if isinstance(first, contexts.CategorySpec | contexts.HashSpec) else None


def shard_module(module: nodes.ModulePlan, parts: ContextShards, task: int, tasks: int) -> nodes.ModulePlan:
    """`module` as task number `task` of `tasks` runs it: of categories the context has those of the task only."""
    if not isinstance(parts.spec, contexts.CategorySpec):
        return module

    def own(spec: Any) -> Any:
        if isinstance(spec, contexts.NestedSpec):
            (name, first), *rest = spec.levels
            return replace(spec, levels=((name, own(first)), *rest))
        return replace(spec, categories=spec.categories[task::tasks])

    statements = tuple(
        replace(s, spec=own(s.spec))
        if isinstance(s, nodes.CreateContextTreeStatement) and s.context.name == parts.context
        else s
        for s in module.statements
    )
    return replace(module, statements=statements)


def hash_buckets(parts: ContextShards, name: str, columns: Sequence[Sequence[Any]]) -> list[int]:
    """The hash buckets of events of the input type `name`, from the columns of what is hashed."""
    assert isinstance(parts.spec, contexts.HashSpec)
    stream = parts.spec.streams[dict(parts.inputs)[name]]
    of = hasher(stream.function, [a.type for a in stream.args])
    return [bucket(of(values), parts.spec.granularity) for values in zip(*columns, strict=True)]


def hashed_properties(parts: ContextShards, name: str) -> tuple[str, ...]:
    """The properties of an input type that are hashed."""
    assert isinstance(parts.spec, contexts.HashSpec)
    stream = parts.spec.streams[dict(parts.inputs)[name]]
    return tuple(a.name for a in stream.args if isinstance(a, expressions.Prop))
