"""The number of random cases in a test. `CEPBOOK_HISTORIES=1000` runs that many in place of the usual few."""

from __future__ import annotations

import os

_GIVEN = os.environ.get("CEPBOOK_HISTORIES")


def several(usual: int) -> int:
    """Return the number of cases: `usual`, or the number in ``CEPBOOK_HISTORIES``."""
    return usual if _GIVEN is None else int(_GIVEN)
