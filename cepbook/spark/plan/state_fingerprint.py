"""The fingerprint of a stream's state: its statements, the division of its keys, and the columns of its events."""

from __future__ import annotations

import json
from dataclasses import replace

from cepbook.engine.snapshot.runtime_parts import RuntimeParts
from cepbook.spark.plan.placement import Placement
from cepbook.spark.task.program import STATE_FORMAT, TaskProgram
from cepbook.spark.task.task_runner import load_runtime


def state_fingerprint_of(program: TaskProgram, placement: Placement, key_groups: int) -> str:
    """Return the fingerprint of the state that tasks keep for `program`; a native statement keeps none.

    The code part is that of snapshots: another version of cepbook has the same fingerprint unless the code that it
    generates for the statements differs.
    """
    if placement.path == "native":
        return json.dumps({"format": STATE_FORMAT, "code": "", "divided": "not at all", "events": ""})
    fields = {
        "format": STATE_FORMAT,
        "code": RuntimeParts(load_runtime(replace(program, task_modules={}))[0]).fingerprint,
        "divided": f"{key_groups} parts, {_division(placement)}" if placement.path == "by key" else "whole",
        "events": "; ".join(f"{name}: {', '.join(properties)}" for _, name, properties, _ in program.inputs),
    }
    return json.dumps(fields)


def _division(placement: Placement) -> str:
    """Describe how an event finds its key group."""
    if placement.shards is None:
        return "; ".join(f"{name} by {', '.join(properties)}" for name, properties in placement.keys)
    context, spec = placement.shards.context, placement.shards.hashes
    if placement.shards.categories is not None:
        return f"categories {', '.join(label for label, _ in placement.shards.categories.categories)} of {context}"
    assert spec is not None
    hashes = []
    for stream in spec.streams:
        hashes.append(f"{stream.event_type} by {stream.function}({', '.join(stream.key_properties)})")
    return f"{spec.granularity} hash buckets of {context}, {'; '.join(hashes)}"
