"""Keys that divide the input types, and the properties of derived streams and stores that carry them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from cepbook.lang.plan import expressions, nodes
from cepbook.lang.plan import pattern as patterns
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies, event_sources, properties_read, recognition_of
from cepbook.lang.types import BITS, EXACT_KEY_TYPES

_MOST_KEYS_TRIED = 4096
KeyColumns = tuple[str, frozenset[str]]  # of a type, of which properties one must hold the key
KeyChoice = tuple[KeyColumns, ...]  # all of them
KeyRequirement = tuple[tuple[KeyChoice, ...], ...]  # one way of each; empty: events are judged by themselves
NO_REQUIREMENT: KeyRequirement = ()


def common_partition_keys(
    line: StatementDependencies, needs: Sequence[KeyRequirement], catalog: Catalog
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """All properties (one list per input type, position by position) by which tasks may be divided, or None."""
    if not line.inputs:
        return None
    read = properties_read(line, catalog)
    declared = {name: catalog.event_types[name].properties for name in line.inputs}
    options = [[p for p in read[n] if declared[n][p].name in EXACT_KEY_TYPES] for n in line.inputs]
    found: list[tuple[str, ...]] = []
    for choice in itertools.islice(itertools.product(*options), _MOST_KEYS_TRIED):
        carried = _carried_by(dict(zip(line.inputs, choice, strict=True)), line, catalog)
        if all(_is_whole(need, carried, catalog) for need in needs):
            found.append(choice)
    if not found:
        return None
    return tuple((name, tuple(c[i] for c in found)) for i, name in enumerate(line.inputs))


def _carried_by(choice: Mapping[str, str], line: StatementDependencies, catalog: Catalog) -> dict[str, frozenset[str]]:
    """The properties, by type and store, that hold the key where `choice` divides the input types."""
    changed = {name: mutated_properties(name, line, catalog) for name in (*catalog.event_types, *catalog.stores)}
    carried = {name: frozenset({p}) - changed[name] for name, p in choice.items()}
    readers = [r for r in line.readers if not isinstance(r, nodes.CycleStatement)]
    created = [s for s in line.stores if isinstance(s, nodes.CreateWindowStatement) and s not in readers]
    writers = [*readers, *created]
    targets = {target for w in writers for target, _ in key_copies(w, carried, catalog)}
    for target in targets:
        declared = frozenset(catalog.event_types[target].properties) if target in catalog.event_types else frozenset()
        table = catalog.stores.get(target)
        keys = {f"#{i}" for i in range(len(table.keys))} if table is not None else set()
        carried.setdefault(target, (declared - changed.get(target, frozenset())) | keys)
    settled = False
    while not settled:  # the greatest set of properties of derived types that repeat the key, also around cycles
        settled = True
        for writer in writers:
            for target, copies in key_copies(writer, carried, catalog):
                kept = carried[target] & _with_places(target, copies, catalog)
                if kept != carried[target]:
                    carried[target] = kept
                    settled = False
    return carried


def _with_places(target: str, copies: frozenset[str], catalog: Catalog) -> frozenset[str]:
    """Of a table also the places of its primary keys."""
    store = catalog.stores.get(target)
    return copies if store is None else copies | {f"#{i}" for i, name in enumerate(store.keys) if name in copies}


def mutated_properties(name: str, line: StatementDependencies, catalog: Catalog) -> frozenset[str]:
    """The properties of events or rows that statements change after these have come."""
    found = set[str]()
    for reader in line.readers:
        if isinstance(reader, nodes.UpdateStatement):
            if catalog.is_a(name, reader.source.event_type):
                found |= {change.name for change in reader.changes}
        elif isinstance(reader, nodes.MergeStatement) and reader.target.name == name:
            actions = (action for branch in reader.branches for action in branch.actions)
            found |= {change.name for action in actions for change in action.changes}
    return frozenset(found)


def key_copies(
    writer: nodes.StreamStatement, carried: Mapping[str, frozenset[str]], catalog: Catalog
) -> Iterator[tuple[str, frozenset[str]]]:
    """What a statement writes into: a type or store, and the properties to which it copies the key."""
    keys = [_carried(each.event_type, carried, catalog) for each in event_sources(writer)]
    if isinstance(writer, nodes.MergeStatement):
        rows = [_carried(writer.target.name, carried, catalog), keys[0]]
        for action in (action for branch in writer.branches for action in branch.actions):
            if action.insert is not None or action.kind == "insert":
                target = writer.target.name if action.insert is None else action.insert.target
                yield target, frozenset(c.name for c in action.columns if _repeats(c.value, rows))
    elif isinstance(writer, nodes.SplitStatement):
        for branch in writer.branches:
            copies = frozenset() if branch.contained else _of_columns(branch.columns, branch.wildcard, keys)
            yield branch.insert.target, copies
    elif isinstance(writer, nodes.SelectStatement):
        if writer.insert is not None:
            yield writer.insert.target, _copies(writer, keys, carried, catalog)
        aggregation = aggregation_of(writer)
        if writer.into is not None and aggregation is not None:
            table = catalog.stores[writer.into.store.name]
            places = {i for i, key in enumerate(aggregation.keys) if _repeats(key, keys)}
            yield table.name, frozenset(table.keys[i] for i in places if i < len(table.keys))


def _carried(read: str, carried: Mapping[str, frozenset[str]], catalog: Catalog) -> frozenset[str]:
    """The properties of `read` that hold the key in the events of every type that arrives there."""
    arriving = [props for name, props in carried.items() if catalog.is_a(name, read)]
    return frozenset.intersection(*arriving) if arriving else frozenset()


def _copies(
    statement: nodes.SelectStatement,
    keys: Sequence[frozenset[str]],
    carried: Mapping[str, frozenset[str]],
    catalog: Catalog,
) -> frozenset[str]:
    """The output columns of `statement` that repeat one of the input properties `keys`, by stream, unchanged."""
    join, source, columns = statement.join, statement.source, statement.root.columns
    if source.pattern is not None or statement.derived is not None or recognition_of(statement.root) is not None:
        single = {} if source.pattern is None else _always_there(source.pattern)
        found = set()
        for column in columns if len(statement.sources) == 1 else ():
            tag = tag_member(column.value, 0)
            if tag is not None and tag[0] in single and tag[1] in _carried(single[tag[0]], carried, catalog):
                found.add(column.name)
        return frozenset(found)
    if join is not None and any(each.kind != "inner" for each in join.inputs):
        return frozenset()  # a stream without a partner has null for its key
    found = set(_of_columns(columns, statement.root.wildcard and join is None, keys))
    aggregation = aggregation_of(statement)
    for column in columns:
        key = (
            aggregation.keys[column.value.index]
            if aggregation and isinstance(column.value, expressions.KeyRef)
            else None
        )
        if key is not None and _repeats(key, keys):
            found.add(column.name)
    return frozenset(found)


def _of_columns(
    columns: Sequence[nodes.OutputColumn], wildcard: bool, keys: Sequence[frozenset[str]]
) -> frozenset[str]:
    found = {c.name for c in columns if _repeats(c.value, keys)}
    return frozenset(found | (keys[0] - {c.name for c in columns}) if wildcard else found)


def _repeats(value: expressions.BoundExpr, keys: Sequence[frozenset[str]]) -> bool:
    """Whether `value` is one of the properties `keys`, by stream, perhaps widened to a longer whole number."""
    if isinstance(value, expressions.Convert):
        before, after = BITS.get(value.operand.type.name), BITS.get(value.type.name)
        if before is None or after is None or after < before:
            return False
        value = value.operand
    return isinstance(value, expressions.Prop) and value.stream < len(keys) and value.name in keys[value.stream]


def _is_whole(need: KeyRequirement, carried: Mapping[str, frozenset[str]], catalog: Catalog) -> bool:
    """Whether `carried` divides what `need` asks for."""

    def meets(side: KeyColumns) -> bool:
        fed = any(catalog.is_a(name, side[0]) for name in carried)
        return not fed or bool(side[1] & _carried(side[0], carried, catalog))

    return all(any(all(map(meets, way)) for way in ways) for ways in need)


def _always_there(pattern: patterns.Pattern) -> dict[str, str]:
    """The tags that every match has one event for, with its type."""
    root = pattern.root
    steps = root.operands if isinstance(root, patterns.FollowedByPattern) else (root,)
    atoms = [step.operand if isinstance(step, patterns.EveryPattern) else step for step in steps]
    return {a.tag: a.event_type for a in atoms if isinstance(a, patterns.Atom) and a.tag is not None}


def tag_member(value: expressions.BoundExpr, stream: int) -> tuple[str, str] | None:
    """Tag and property of ``tag.property``."""
    if (
        isinstance(value, expressions.MemberAccess)
        and isinstance(value.target, expressions.Prop)
        and value.target.stream == stream
    ):
        return value.target.name, value.name
    return None


def aggregation_of(statement: nodes.SelectStatement) -> nodes.Aggregation | None:
    """Its groups and aggregates."""
    return next((node for node in nodes.chain(statement.root) if isinstance(node, nodes.Aggregation)), None)
