"""Keys that divide the input types, and the properties of derived streams and stores that carry them.

A choice of keys takes one property of each input type. The key propagates to a derived stream if every statement that
inserts into it copies the key to the same property. `common_partition_keys` tries the choices and returns those that
meet the requirements of all statements.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.dependencies import StatementDependencies, properties_read
from cepbook.lang.plan.key_requirement import KeyColumns, KeyRequirement
from cepbook.lang.types import EXACT_KEY_TYPES

_MOST_KEYS_TRIED = 4096


def common_partition_keys(
    deps: StatementDependencies, needs: Sequence[KeyRequirement], catalog: Catalog
) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """Return the properties that may divide the tasks, or None if no choice meets all `needs`.

    The result has a list of properties per input type; those at the same position form one choice.
    """
    if not deps.inputs:
        return None
    read = properties_read(deps, catalog)
    declared = {name: catalog.event_types[name].properties for name in deps.inputs}
    options = [[p for p in read[n] if declared[n][p].name in EXACT_KEY_TYPES] for n in deps.inputs]
    choices: list[tuple[str, ...]] = []
    for choice in itertools.islice(itertools.product(*options), _MOST_KEYS_TRIED):
        carried = _propagate_keys(dict(zip(deps.inputs, choice, strict=True)), deps, catalog)
        if all(_is_satisfied(need, carried, catalog) for need in needs):
            choices.append(choice)
    if not choices:
        return None
    return tuple((name, tuple(c[i] for c in choices)) for i, name in enumerate(deps.inputs))


def _propagate_keys(
    choice: Mapping[str, str], deps: StatementDependencies, catalog: Catalog
) -> dict[str, frozenset[str]]:
    """Return by type and store the properties that hold the key, if `choice` divides the input types.

    Starts from all properties and removes those that a writer does not copy, until nothing changes. This also settles
    statements that feed one another.
    """
    changed = {name: mutated_properties(name, deps, catalog) for name in (*catalog.event_types, *catalog.stores)}
    carried = {name: frozenset({p}) - changed[name] for name, p in choice.items()}
    writers = [*deps.readers, *(window for window in deps.named_windows if window not in deps.readers)]
    targets = {target for w in writers for target, _ in key_copies(w, carried, catalog)}
    for target in targets:
        declared = frozenset(catalog.event_types[target].properties) if target in catalog.event_types else frozenset()
        table = catalog.stores.get(target)
        keys = {f"#{i}" for i in range(len(table.keys))} if table is not None else set()
        carried.setdefault(target, (declared - changed.get(target, frozenset())) | keys)
    stable = False
    while not stable:  # the greatest set of properties of derived types that repeat the key, also around cycles
        stable = True
        for writer in writers:
            for target, copies in key_copies(writer, carried, catalog):
                copied = carried[target] & _with_key_positions(target, copies, catalog)
                if copied != carried[target]:
                    carried[target] = copied
                    stable = False
    return carried


def _with_key_positions(target: str, copies: frozenset[str], catalog: Catalog) -> frozenset[str]:
    """Add the positions of a table's primary keys (``#0``, ``#1``) to the columns that are copied."""
    store = catalog.stores.get(target)
    return copies if store is None else copies | {f"#{i}" for i, name in enumerate(store.keys) if name in copies}


def mutated_properties(name: str, deps: StatementDependencies, catalog: Catalog) -> frozenset[str]:
    """Return the properties of a type or store that statements change after an event or row has arrived."""
    changes = (change for reader in deps.readers for change in reader.changed_properties)
    return frozenset(changed for of, changed in changes if catalog.is_a(name, of))


def key_copies(
    writer: nodes.StreamStatement, carried: Mapping[str, frozenset[str]], catalog: Catalog
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each type or store that a statement writes to, with the properties to which it copies the key."""
    yield from writer.key_copies(lambda read: _carried(read, carried, catalog))


def _carried(read: str, carried: Mapping[str, frozenset[str]], catalog: Catalog) -> frozenset[str]:
    """Return the properties of `read` that hold the key in the events of every type that arrives there."""
    arriving = [props for name, props in carried.items() if catalog.is_a(name, read)]
    return frozenset.intersection(*arriving) if arriving else frozenset()


def _is_satisfied(need: KeyRequirement, carried: Mapping[str, frozenset[str]], catalog: Catalog) -> bool:
    """Return whether the requirement is met where the properties `carried` hold the key."""

    def meets(side: KeyColumns) -> bool:
        fed = any(catalog.is_a(name, side[0]) for name in carried)
        return not fed or bool(side[1] & _carried(side[0], carried, catalog))

    return all(any(all(map(meets, choice)) for choice in choices) for choices in need.choices)
