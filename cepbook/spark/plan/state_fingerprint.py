"""What the state of a stream is of: a mark that is kept with it, and looked at when the stream goes on from it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cepbook.engine.snapshot.runtime_parts import RuntimeParts
from cepbook.errors import SnapshotError
from cepbook.lang.plan.context import CategorySpec
from cepbook.lang.plan.expressions import BoundExpr, Prop
from cepbook.spark.task.task_runner import TaskProgram, load_runtime

if TYPE_CHECKING:  # which Spark's workers need not load
    from cepbook.spark.plan.placement import Placement

STATE_FORMAT = 1  # of what `processor` keeps
OUTDATED_STATE = "was written by a version of cepbook that kept something else in it: it would not fit"
_OTHER = (
    ("format", OUTDATED_STATE),
    ("code", "holds the state of other statements, or of another version of cepbook: it would not fit"),
    ("divided", "holds a state that is divided otherwise ({there}, here {here}): it would be incomplete"),
    ("events", "holds events with other columns ({there}, here {here}): they would not fit"),
)
RESTART_HINT = (
    "\n  hint: go on with what the stream was begun with, or begin anew: another checkpoint, another directory"
)
_INITIAL = "\n  hint: what the stream began with must be given again (`initial=`), or begin anew: another checkpoint"


def state_fingerprint_of(program: TaskProgram, placement: Placement, divisions: int) -> str:
    """The mark of what tasks keep that run `program`; what Spark itself runs keeps nothing.

    Of the code it has what snapshots have: the same statements of another version bear the same mark, unless what is
    generated for them changed.
    """
    if placement.path == "native":
        return json.dumps({"format": STATE_FORMAT, "code": "", "divided": "not at all", "events": ""})
    found = {
        "format": STATE_FORMAT,
        "code": RuntimeParts(load_runtime(replace(program, shares={}))[0]).fingerprint,
        "divided": f"{divisions} parts, {_division(placement)}" if placement.path == "by key" else "whole",
        "events": "; ".join(f"{name}: {', '.join(properties)}" for _, name, properties, _ in program.inputs),
    }
    return json.dumps(found)


def _division(placement: Placement) -> str:
    """What decides on the part that an event goes to."""
    if placement.parts is None:
        return "; ".join(f"{name} by {', '.join(properties)}" for name, properties in placement.keys)
    context, spec = placement.parts.context, placement.parts.spec
    if isinstance(spec, CategorySpec):
        return f"categories {', '.join(label for label, _ in spec.categories)} of {context}"
    hashes = (f"{s.event_type} by {s.function}({', '.join(map(_name, s.args))})" for s in spec.streams)
    return f"{spec.granularity} hash buckets of {context}, {'; '.join(hashes)}"


def _name(hashed: BoundExpr) -> str:
    return hashed.name if isinstance(hashed, Prop) else type(hashed).__name__  # of parts all are properties


def check_fingerprint(mark: str, there: str | None, where: str = "the checkpoint") -> None:
    """Errors: SnapshotError where `there`, the mark of a state (of old ones: none), is not `mark`."""
    if mark == there:
        return
    here, kept = (json.loads(each or "{}") for each in (mark, there))
    for name, what in _OTHER:
        if kept.get(name) != here.get(name):
            raise SnapshotError(f"{where} {what.format(there=kept.get(name), here=here.get(name))}{_hint(name, kept)}")


def _hint(name: str, kept: dict[str, Any]) -> str:
    return _INITIAL if name == "divided" and kept["divided"] == "whole" else RESTART_HINT
