"""Coins of windows that choose at random, the same for the same seed."""

from __future__ import annotations

import random
from typing import Any

from cepbook.engine.state import State

_AHEAD = 256  # coins that are drawn at once


class CoinTosses(State):
    """The coins that follow from a seed: those drawn ahead, and what the generator goes on from."""

    __slots__ = ("_ahead", "_generator", "_place")

    def __init__(self, seed: int) -> None:
        self._generator: Any = random.Random(seed).getstate()
        self._ahead: list[float] = []
        self._place = 0

    def heads(self) -> bool:
        """Throw the next one."""
        if self._place == len(self._ahead):
            generator = random.Random()
            generator.setstate(self._generator)
            self._ahead = [generator.random() for _ in range(_AHEAD)]
            self._generator = generator.getstate()
            self._place = 0
        self._place += 1
        return self._ahead[self._place - 1] < 0.5
