"""Composing the levels of a context's tree, and locating replayed events through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cepbook.engine.contexts.conditions import CompiledLevels, EventCondition, NowCondition, PatternCondition
from cepbook.engine.contexts.lifecycle import NonOverlappingBranch, OverlappingBranch
from cepbook.engine.contexts.locator import OUTSIDE, PartitionLocation, PartitionLocator
from cepbook.engine.contexts.partitioning import CategoryBranch, HashBranch, KeyedBranch
from cepbook.engine.contexts.tree_nodes import Branch, Level
from cepbook.engine.contexts.tree_partitions import TreePartitions
from cepbook.engine.subscriptions.filter_index import leading_conditions
from cepbook.lang.plan import context as c
from cepbook.lang.plan import expressions as x

_BRANCH_TYPES: dict[type, type[Branch]] = {
    c.KeyedSpec: KeyedBranch,
    c.HashSpec: HashBranch,
    c.CategorySpec: CategoryBranch,
    c.NonOverlappingSpec: NonOverlappingBranch,
    c.OverlappingSpec: OverlappingBranch,
}


def build_levels(levels: CompiledLevels, tree: TreePartitions) -> Level:
    """Return the outermost level of a tree, linked to the inner ones."""
    outermost: Level | None = None
    for depth, compiled in reversed(list(enumerate(levels))):
        outermost = Level(compiled, _BRANCH_TYPES[type(compiled.spec)], depth, tree, outermost, len(levels) > 1)
    assert outermost is not None
    return outermost


def levels_from(level: Level | None) -> Iterator[Level]:
    """Return a level and all levels inner to it."""
    while level is not None:
        yield level
        level = level.inner


def assignment_obstacle(outermost: Level) -> str | None:
    """Return the reason that an event alone does not determine its partitions; None if it does.

    Keys, hashes and categories can be determined. The text completes "context `C` …".
    """
    types = {stream.event_type for stream in outermost.compiled.streams}
    for level in levels_from(outermost):
        compiled, divides = level.compiled, bool(level.compiled.spec.event_types)
        if not divides or compiled.begins or compiled.ends is not None:
            return "has conditions that begin and end partitions between the events"
        if any(stream.alias is not None for stream in compiled.streams):
            return "has partitions that keep their first event"
        if types != {stream.event_type for stream in compiled.streams}:
            return "has levels that list different streams"
        total = all(stream.deterministic and stream.passes is None for stream in compiled.streams)
        if level is not outermost and not total:  # the outer level allocates before the inner one rejects or fails
            return "has an inner level that may reject events or fail"
    return None


def has_single_period(outermost: Level) -> bool:
    """Return True for the only level of a context in which one node at most lives, if columns tell at times that no
    event begins or ends one. Patterns and contained events are left out: columns cannot tell whether an event meets
    them.
    """
    if outermost.inner is not None or outermost.branch_type is not NonOverlappingBranch:
        return False
    begins, ends = outermost.compiled.begins[0], outermost.compiled.ends
    if any(isinstance(c, PatternCondition) or (isinstance(c, EventCondition) and c.unfold) for c in (begins, ends)):
        return False
    awaited = [ends] if isinstance(begins, NowCondition) else [begins, ends]
    by_events = [c for c in awaited if isinstance(c, EventCondition)]
    return len(by_events) < len(awaited) or any(leading_conditions(x.conjuncts(c.filter)) for c in by_events)


def locator_through(outermost: Level, type_name: str) -> PartitionLocator | None:
    """Return a locator through all levels, if there is no `assignment_obstacle`; None if the type is not listed."""
    by_level = [level.stream(type_name) for level in levels_from(outermost)]
    streams = [stream for stream in by_level if stream is not None]
    if len(streams) < len(by_level):
        return None
    functions = [
        (lambda event, of=stream: (tuple(of.locate(event)[1]), ())) if level.kind == "category" else stream.locate
        for level, stream in zip(levels_from(outermost), streams, strict=True)
    ]
    passes, first, *inner = streams[0].passes, *functions

    def locate(event: Any) -> PartitionLocation:
        if passes is not None and not passes(event):
            return OUTSIDE, ()
        key, values = first(event)
        if key == ():  # no category matches
            return OUTSIDE, ()
        rest = [function(event) for function in inner]
        return (key, *(inner_key for inner_key, _ in rest)), (values, *(keys for _, keys in rest))

    names = [name for stream in streams for name in stream.reads or ()]
    reads = None if any(stream.reads is None for stream in streams) else tuple(dict.fromkeys(names))
    several = any(level.kind == "category" for level in levels_from(outermost))
    return PartitionLocator(locate, reads, all(stream.deterministic for stream in streams), several=several)
