"""Snapshot of one context partition: the states of the context's statements, and the part of the context around them.

Besides `cepbook`, `fingerprint`, `now` and the tables of `value_graph`, the document has `context`, `statements` (name
and timers by slot), `partition` and `around` (see `Context.enclosing_nodes`). It fits every runtime with the same
modules whose clock is not behind.

A restored partition replaces the corresponding one: the one with the same key, hash or category; the existing one for
`start … end`; the one that began with the same events at the same time for `initiated by`. In a nested context the
partitions around it stay as they are, and are restored only if they do not exist.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.snapshot.file_format import WRITTEN_BY, pack_document, unpack_document
from cepbook.engine.snapshot.runtime_parts import runtime_parts
from cepbook.engine.snapshot.runtime_snapshot import check_fingerprint, refuse_within_turn, report_damage
from cepbook.engine.snapshot.value_graph import GraphReader, GraphWriter, UnsavableValue
from cepbook.errors import SnapshotError, UsageError


def save_partition(runtime: Any, context: str, id_: int) -> bytes:
    """Return the partition `id_` of a context as a file.

    Errors: UsageError if it does not exist, or a statement of the context shares state with something outside;
    SnapshotError for a value that cannot be saved.
    """
    runtime.turn.check()
    refuse_within_turn()
    running_context: Context = runtime.context(context)
    _refuse_bound(running_context)
    partition = next((live for live in running_context.partitions.values() if live.id == id_), None)
    if partition is None:
        raise UsageError(f"context `{context}` has no live partition {id_}")
    parts = runtime_parts(runtime)
    around, outside = running_context.enclosing_state(partition)
    writer = GraphWriter(parts.path, outside)
    try:
        values = {"partition": writer.value(partition), "around": writer.value(around)}
    except UnsavableValue as unknown:
        raise SnapshotError(f"partition {id_} of context `{context}` holds {unknown}, which cannot be saved") from None
    return pack_document(
        {
            "cepbook": WRITTEN_BY,
            "fingerprint": parts.fingerprint,
            "now": runtime.now,
            "context": context,
            "statements": [
                None if statement is None else [statement.name, statement.armed_timers(partition)]
                for statement in running_context.statements
            ],
            **values,
            "parts": writer.parts,
            "classes": writer.classes,
            "nodes": writer.nodes,
        }
    )


def restore_partition(runtime: Any, data: bytes) -> int:
    """Put a partition into a runtime with the same modules and return its id, which is the saved one if that is free.

    Everything that has become due meanwhile follows at the next advance. Errors: SnapshotError as for
    `restore_runtime`; UsageError if the clock is behind that of the snapshot.
    """
    runtime.turn.check()
    refuse_within_turn()
    document = unpack_document(data)
    if "partition" not in document:
        raise SnapshotError("this is the snapshot of a whole runtime, not of a partition")
    parts = runtime_parts(runtime)
    check_fingerprint(parts, document)
    with report_damage():
        is_ahead = document["now"] > runtime.now
    if is_ahead:
        raise UsageError(
            f"the partition was saved at {document['now']} ms, and the clock here is at {runtime.now} ms\n"
            "  hint: advance to that time first"
        )
    with report_damage():
        running_context: Context = runtime.context(document["context"])
        nodes = running_context.placeholder_nodes()
        referenced = [nodes[path] if path in nodes else parts.find(path) for path in document["parts"]]
        reader = GraphReader(document["nodes"], document["classes"], referenced)
        partition: ContextPartition = reader.value(document["partition"])
        around = reader.value(document["around"])
        armed_timers: dict[str, Any] = {}
        states: dict[str, Any] = {}
        for saved, state in zip(document["statements"], partition.states, strict=True):
            if saved is not None:
                states[saved[0]], armed_timers[saved[0]] = state, saved[1]
        partition.states = [s if s is None else states[s.name] for s in running_context.statements]
    with runtime.turn:
        running_context.admit(partition, around, nodes)
        for statement in running_context.statements:
            if statement is not None:
                statement.partition_restored(partition, armed_timers[statement.name])
        if runtime.turn.queue:
            runtime.turn.drain()
    return partition.id


def _refuse_bound(context: Context) -> None:
    """Errors: UsageError for a statement whose state depends on something outside the context."""
    for statement in context.statements:
        bound = None if statement is None else statement.external_state
        if bound is not None:
            assert statement is not None
            raise UsageError(
                f"the partitions of context `{context.name}` cannot be saved individually: statement "
                f"`{statement.name}` {bound}\n"
                "  hint: save the whole runtime"
            )
