"""Check that a stream continues from a state that fits its statements.

The state of a stream carries a fingerprint: JSON that names the statements, the division of the keys and the columns.
"""

from __future__ import annotations

import json
from typing import Any

from cepbook.errors import SnapshotError

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
