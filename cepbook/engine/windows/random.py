"""``random(n, seed)``: a coin toss decides whether an event enters; of those that do, the last n stay.

::

    random(2)
    arrivals   a      b      c      d      e
    coin       heads  tails  heads  heads  tails
    contents   a      a      ac     cd     cd
    leaves                          a

A sample of one in two readings, the latest 100 of them::

    select * from Reading#random(100)

An event that does not enter has no effect. The tosses are determined by the seed, by default 0. Each group of a
``groupwin`` tosses its own coin. (StreamCruncher - Basics: Random Events Window.)
"""

from __future__ import annotations

from cepbook.engine.state import CoinTosses
from cepbook.engine.windows.length import LengthWindow
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, optional, size
from cepbook.engine.windows.window_view import Item, ViewDelta


class RandomWindow(LengthWindow):
    """The view of ``random``."""

    __slots__ = ("coins",)

    def __init__(self, size: int, seed: int = 0) -> None:
        super().__init__(size)
        self.coins = CoinTosses(seed)

    def arrive(self, item: Item, now: int) -> ViewDelta | None:  # type: ignore[override]
        return super().arrive(item, now) if self.coins.heads() else None


WINDOW = WindowCodegen(creates(RandomWindow, size(), optional(1, "0")))
