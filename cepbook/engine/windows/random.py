"""``random(n, seed)``: a coin decides of each event whether it enters; of those that do the last n stay.

::

    random(2)
    arrivals   a      b      c      d      e
    coin       heads  tails  heads  heads  tails
    contents   a      a      ac     cd     cd
    leaves                          a

An event that does not enter appears nowhere. The coins follow from the seed, which is 0 if it is not given; each group
of a ``groupwin`` throws its own. (StreamCruncher - Basics: Random Events Window.)
"""

from __future__ import annotations

from cepbook.engine.state import CoinTosses
from cepbook.engine.windows.length import LengthWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, size
from cepbook.engine.windows.window_view import Item, ViewDelta


class RandomWindow(LengthWindow):
    """The view of ``random``."""

    __slots__ = ("coins",)

    def __init__(self, size: int, seed: int = 0) -> None:
        super().__init__(size)
        self.coins = CoinTosses(seed)

    def arrive(self, item: Item, now: int) -> ViewDelta | None:  # type: ignore[override]
        return super().arrive(item, now) if self.coins.heads() else None


def _seed(given: str) -> str:
    return f", {given}"


WINDOW = WindowCodegen(
    lambda code, spec, at: (
        f"{code.source.bind('_Random', RandomWindow)}({size(code, spec)}"
        f"{''.join(_seed(code.parameter(seed)) for seed in spec.args[1:])})"
    )
)
