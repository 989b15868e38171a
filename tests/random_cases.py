"""The number of random cases in a test. `CEPBOOK_HISTORIES=1000` runs that many in place of the usual few.

`CEPBOOK_SHARD=3/100` is for tests of all cases of a kind: each hundredth of them, from number 3 on.
"""

from __future__ import annotations

import os

_number, _, _step = os.environ.get("CEPBOOK_SHARD", "0/1").partition("/")
SHARD = slice(int(_number), None, int(_step))
_GIVEN = os.environ.get("CEPBOOK_HISTORIES")


def several(usual: int) -> int:
    """Return the number of cases: `usual`, or the number in ``CEPBOOK_HISTORIES``."""
    return usual if _GIVEN is None else int(_GIVEN)
