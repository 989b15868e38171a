"""``correl(x, y)``: the correlation of two values; NaN without variation."""

from __future__ import annotations

from typing import Any

from cepbook.engine.rows.windows.moments import Pairs


class Correl(Pairs):
    """The statistic of ``correl``."""

    __slots__ = ()

    def fields(self) -> dict[str, Any]:
        return {"correlation": self.correlation}


STATISTIC = Correl
