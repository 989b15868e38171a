"""``size``: the number of events of the window before it, or so far; posts when it changes."""

from __future__ import annotations

from typing import Any

from cepbook.engine.state import State


class SizeStatistic(State):
    """The statistic of ``size``."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def enter(self, *values: Any) -> None:
        self.count += 1

    def leave(self, *values: Any) -> None:
        self.count -= 1

    def fields(self) -> dict[str, Any]:
        return {"size": self.count}


STATISTIC = SizeStatistic
