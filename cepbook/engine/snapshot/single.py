"""One partition of a plain keyed context as a snapshot: the states of the context's statements for one key.

The document has, beside ``cepbook``, ``fingerprint`` and the tables of `graph`: ``context``, ``statements`` (by slot)
and ``partition`` (what stands for it). It fits every runtime that has the same modules. Timers are not in it: they are
armed anew from what the states say is due.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.contexts.keyed import KeyedContext
from cepbook.engine.contexts.partition import Partition
from cepbook.engine.snapshot.form import WRITTEN_BY, packed, unpacked
from cepbook.engine.snapshot.graph import Reader, Unknown, Writer
from cepbook.engine.snapshot.parts import parts_of
from cepbook.engine.snapshot.whole import check_program, damaged, refuse_within_rounds
from cepbook.errors import SnapshotError, UsageError


def partition_snapshot(runtime: Any, context: str, id_: int) -> bytes:
    """The partition `id_` of a context as a file.

    Errors: UsageError when there is none, or the context is not a plain keyed one; SnapshotError for a value that
    cannot be saved.
    """
    runtime.rounds.check()
    refuse_within_rounds()
    found = _keyed(runtime, context)
    partition = next((each for each in found.partitions.values() if each.id == id_), None)
    if partition is None:
        raise UsageError(f"context `{context}` has no live partition {id_}")
    parts = parts_of(runtime)
    writer = Writer(parts.path)
    try:
        kept = writer.value(partition)
    except Unknown as unknown:
        raise SnapshotError(f"partition {id_} of context `{context}` holds {unknown}, which cannot be saved") from None
    return packed(
        {
            "cepbook": WRITTEN_BY,
            "fingerprint": parts.fingerprint,
            "context": context,
            "statements": [None if each is None else each.name for each in found.statements],
            "partition": kept,
            "parts": writer.parts,
            "classes": writer.classes,
            "nodes": writer.nodes,
        }
    )


def restore_partition(runtime: Any, data: bytes) -> int:
    """Put a partition into a runtime of the same modules, in place of the one of its key; its id, the saved one if that
    is free. What has become due meanwhile follows at the next advance.

    Errors: SnapshotError as of `whole.restored`.
    """
    runtime.rounds.check()
    refuse_within_rounds()
    document = unpacked(data)
    if "partition" not in document:
        raise SnapshotError("this is the snapshot of a whole runtime, not of a partition")
    parts = parts_of(runtime)
    check_program(parts, document)
    with damaged():
        found = _keyed(runtime, document["context"])
        tables = document["nodes"], document["classes"], [parts.find(path) for path in document["parts"]]
        partition: Partition = Reader(*tables).value(document["partition"])
        states = dict(zip(document["statements"], partition.states, strict=True))
        partition.states = [None if each is None else states[each.name] for each in found.statements]
    found.admit(partition)
    for statement, state in zip(found.statements, partition.states, strict=True):
        if statement is not None:
            runtime.statement(statement.name).timed.arm_state(state)
    return partition.id


def _keyed(runtime: Any, name: str) -> KeyedContext:
    found = runtime.context(name)
    if not isinstance(found, KeyedContext):
        raise UsageError(f"the partitions of context `{name}` cannot be saved one by one, only those of keys")
    return found
