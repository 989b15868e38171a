"""Contexts whose partitions are known before any event: categories and hash buckets.

Every task runs some of the partitions, and an event goes to every task that runs one of its partitions:

* Categories are dealt to the tasks in turn. `shard_module` gives each task a module with its own categories only, and
  Spark evaluates the conditions of the categories as SQL to find the tasks of an event.
* Hash buckets are assigned by ``bucket % tasks``. All tasks run the same module; `hash_buckets`, called on batches of
  events, returns the bucket that the engine would compute.

`context_shards_of` returns how they are divided, or the reason why partitions of different tasks would share state. The
events are sent by
`shard_tasks` in `spark/execution/key_assignment.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cepbook.engine.contexts.hashing import bucket, hasher
from cepbook.lang.plan import context as contexts
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies
from cepbook.lang.plan.references import event_types_read
from cepbook.spark.frames.sql_conditions import is_expressible
from cepbook.spark.plan.key_propagation import key_copies, mutated_properties
from cepbook.spark.plan.partitioning import inserted_windows, partition_local_stores, partition_obstacle

_BUILT_IN_HASHES = frozenset({"consistent_hash_crc32", "hash_code"})


@dataclass(frozen=True, slots=True)
class ContextShards:
    """The outermost level of the context `context`, whose partitions are distributed among the tasks.

    The level has either `categories` or `hashes`. With hashes, `inputs` pairs each hashed type with the position of its
    stream in `hashes`.
    """

    context: str
    categories: contexts.CategorySpec | None = None
    hashes: contexts.HashSpec | None = None
    inputs: tuple[tuple[str, int], ...] = ()

    @property
    def reason(self) -> str:
        """How the partitions are divided among the tasks, for reports."""
        partitions = "hash buckets" if self.categories is None else "categories"
        return f"the {partitions} of the context {self.context} are divided among the tasks"


def context_shards_of(deps: StatementDependencies, catalog: Catalog, ticks: bool) -> ContextShards | str | None:
    """Return how the partitions of a context can be divided among tasks.

    Returns the obstacle as text if they cannot, and None if the statements do not run in exactly one context whose
    outermost level has categories or hash buckets. `ticks`: a statement delivers rows when the clock advances.
    """
    level = _outer_level(deps.contexts[0]) if len(deps.contexts) == 1 else None
    if level is None:
        return None
    (context,) = deps.contexts
    name = context.context.name
    created = deps.named_windows
    for statement in (*deps.readers, *created):
        if statement.context != name:
            return f"{statement.name} does not run in the context {name}, but shares state with its statements"
        if statement.drop:
            return f"{statement.name} sees the events of all partitions"
        pattern_types = {atom.event_type for source in statement.sources for atom in source.atoms}
        watched = pattern_types & {window.store.name for window in created}
        if watched:
            return f"the pattern of {statement.name} follows the rows of {min(watched)} in all partitions"
        obstacle = partition_obstacle(statement, context, level.event_types, deps, catalog)
        if obstacle is not None:
            return obstacle
    local_stores = partition_local_stores(deps, catalog)
    inserted = {i.target for reader in deps.readers for i in reader.inserts} - local_stores
    if any(
        catalog.is_a(target, event_type)
        for target in inserted
        for event_type in event_types_read((deps.readers, context))
    ):
        return f"events that statements of the context {name} insert get their partition only at run time"
    if isinstance(level, contexts.CategorySpec):
        if deps.stores:
            return f"rows that one category of the context {name} inserts go to all categories that they match"
        conditions = [level.filter, *(condition for _, condition in level.categories)]
        if not all(e is None or is_expressible(e) for e in conditions):
            return f"the categories of the context {name} have conditions that cannot be written in Spark SQL"
        return ContextShards(name, categories=level)
    for stream in level.streams:
        exact = len(stream.key_properties) == len(stream.args)
        if stream.function not in _BUILT_IN_HASHES or not exact:
            return f"the hashes of the context {name} are not those of a built-in function over properties"
    for window in inserted_windows(deps, context):
        target, source = window.store.name, window.store.partitioned_as or ""
        names = next((s.key_properties for s in level.streams if catalog.is_a(source, s.event_type)), ())
        if not names or not all(_copies_property(target, copied, deps, catalog) for copied in names):
            return f"rows of {target} get their partition of the context {name} only at run time"
    if level.preallocate and ticks:
        return f"all partitions of the context {name} exist from the start (preallocate) and follow the clock"
    inputs = []
    for input_type in deps.inputs:
        positions = [i for i, stream in enumerate(level.streams) if catalog.is_a(input_type, stream.event_type)]
        if len(positions) > 1:
            return f"events of {input_type} are hashed in several ways"
        inputs += [(input_type, i) for i in positions]
    return ContextShards(name, hashes=level, inputs=tuple(inputs))


def _copies_property(window: str, name: str, deps: StatementDependencies, catalog: Catalog) -> bool:
    """Return whether every row of a named window has the value of the property of the event that it was inserted from.

    A window that no statement fills passes if nothing updates the property.
    """
    names = {event_type: frozenset({name}) for event_type in deps.inputs}
    insertions = [copy for reader in deps.readers for copy in key_copies(reader, names, catalog)]
    always_copied = all(name in copies for target, copies in insertions if target == window)
    return always_copied and name not in mutated_properties(window, deps, catalog)


def _outer_level(context: nodes.ContextStatement) -> contexts.CategorySpec | contexts.HashSpec | None:
    first = context.levels[0][1]
    return first if isinstance(first, contexts.CategorySpec | contexts.HashSpec) else None


def shard_module(module: nodes.ModulePlan, shards: ContextShards, task: int, tasks: int) -> nodes.ModulePlan:
    """Return `module` as task number `task` of `tasks` runs it: with the categories of this task only.

    A task beyond the number of categories has none, and gets no events.
    """
    if shards.categories is None:
        return module

    def keep_categories_of_task(spec: Any) -> Any:
        if isinstance(spec, contexts.NestedSpec):
            (name, first), *rest = spec.levels
            return replace(spec, levels=((name, keep_categories_of_task(first)), *rest))
        return replace(spec, categories=spec.categories[task::tasks])

    statements = tuple(
        replace(s, spec=keep_categories_of_task(s.spec))
        if isinstance(s, nodes.CreateContextTreeStatement) and s.context.name == shards.context
        else s
        for s in module.statements
    )
    return replace(module, statements=statements)


def hash_buckets(shards: ContextShards, name: str, columns: Sequence[Sequence[Any]]) -> list[int]:
    """Return the hash buckets of events of the input type `name`.

    `columns` has the values of `hashed_properties`, in that order and of equal length.
    """
    assert shards.hashes is not None
    stream = shards.hashes.streams[dict(shards.inputs)[name]]
    hash_function = hasher(stream.function, [a.type for a in stream.args])
    return [bucket(hash_function(values), shards.hashes.granularity) for values in zip(*columns, strict=True)]


def hashed_properties(shards: ContextShards, name: str) -> tuple[str, ...]:
    """Return the properties of an input type whose values are hashed."""
    assert shards.hashes is not None
    return shards.hashes.streams[dict(shards.inputs)[name]].key_properties
