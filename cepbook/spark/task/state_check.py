"""Check that a stream continues from a state that fits its statements.

The state of a stream carries a fingerprint: JSON that names the statements, the division of the keys and the columns.
"""

from __future__ import annotations

import json
from typing import Any

from cepbook.errors import SnapshotError

STATE_FORMAT = 1  # of what `processor` keeps
OUTDATED_STATE = "was written by a version of cepbook with another format: it would not fit"
_MISMATCHES = (
    ("format", OUTDATED_STATE),
    ("code", "holds the state of other statements, or of another version of cepbook: it would not fit"),
    ("divided", "holds a state that is divided in another way ({there}, here {here}): it would be incomplete"),
    ("events", "holds events with other columns ({there}, here {here}): they would not fit"),
)
RESTART_HINT = (
    "\n  hint: continue with the original statements and data, or start over with another checkpoint and directory"
)
_INITIAL_HINT = "\n  hint: pass the same `initial=` again, or start over with another checkpoint"


def check_fingerprint(expected: str, actual: str | None, where: str = "the checkpoint") -> None:
    """Raise `SnapshotError` unless the fingerprint of a state is the expected one; an old state has none (None)."""
    if expected == actual:
        return
    here, there = (json.loads(text or "{}") for text in (expected, actual))
    for name, message in _MISMATCHES:
        if there.get(name) != here.get(name):
            text = message.format(there=there.get(name), here=here.get(name))
            raise SnapshotError(f"{where} {text}{_hint(name, there)}")


def _hint(name: str, stored: dict[str, Any]) -> str:
    return _INITIAL_HINT if name == "divided" and stored["divided"] == "whole" else RESTART_HINT
