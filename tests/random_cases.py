"""The random cases of a test.

`CEPBOOK_HISTORIES=1000` runs that many in place of the usual few. `CEPBOOK_PART=1/2` runs the second half of them:
`make test` runs one half on even days and the other on odd days. A test runs all cases if neither variable is set.

`CEPBOOK_SHARD=3/100` is for tests of all cases of a kind: each hundredth of them, from number 3 on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

Case = TypeVar("Case")
_number, _, _step = os.environ.get("CEPBOOK_SHARD", "0/1").partition("/")
SHARD = slice(int(_number), None, int(_step))
_GIVEN = os.environ.get("CEPBOOK_HISTORIES")
_PART, PARTS = map(int, ("0/1" if _GIVEN else os.environ.get("CEPBOOK_PART", "0/1")).split("/"))


def several(usual: int) -> int:
    """Return the number of cases: `usual`, or the number in ``CEPBOOK_HISTORIES``."""
    return usual if _GIVEN is None else int(_GIVEN)


def part(cases: Iterable[Case]) -> list[Case]:
    """Return the cases of this run, which are consecutive; all of them if there are fewer cases than parts."""
    every = list(cases)
    return every[len(every) * _PART // PARTS : len(every) * (_PART + 1) // PARTS] if len(every) >= PARTS else every


def seeds(usual: int) -> list[int]:
    """Return the seeds of this run, out of as many as `several` says."""
    return part(range(several(usual)))


def in_part(check: Callable[..., None]) -> Callable[..., None]:
    """Let a property test of Hypothesis check the examples of this run only: each n-th of those that are drawn."""
    numbers: dict[str, int] = {}  # by example: Hypothesis runs one that failed again

    @wraps(check)
    def checked(*args: Any, **values: Any) -> None:
        number = numbers.setdefault(repr((args, values)), len(numbers))
        if number % PARTS == _PART:
            check(*args, **values)

    return checked if PARTS > 1 else check
