"""State: plain data, and objects of the classes registered here. A snapshot can hold nothing else.

A subclass of `State` promises that it contains only plain data (numbers, text, times, lists, dicts …), other state, and
references to parts of the program and the runtime (generated functions, specs, statements), which a snapshot names and
does not copy. So it has no closures, partials or bound methods, and `object.__new__` with all fields set must restore
the object.

`SortedList` comes from `sortedcontainers`, whose last release is of 2021. No other module imports that package, so
another sorted list would take its place here.

A part of the runtime lists its fields that belong to the state in `SAVED`, and fields that have no meaning between two
events in `PASSING`.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

from sortedcontainers import SortedList

__all__ = ["STATE_CLASSES", "STATE_NAMES", "CoinTosses", "SortedList", "State", "StateMarker", "saved_slots"]

STATE_CLASSES: dict[str, type] = {}  # by name: "rows.windows.sort.Sort"
STATE_NAMES: dict[type, str] = {}


class State:
    """A part of the engine's state. Subclasses are registered by module and class name.

    A class that defines `SAVED` is a part of the runtime instead and is not registered.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if hasattr(cls, "SAVED"):
            return
        name = f"{cls.__module__.removeprefix('cepbook.engine.')}.{cls.__qualname__}"
        STATE_CLASSES[name] = cls
        STATE_NAMES[cls] = name


def saved_slots(cls: type) -> tuple[str, ...]:
    """Return the slots of a class and its bases, without passing ones."""
    slots_in_order: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        slots = base.__dict__.get("__slots__", ())
        slots_in_order.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    left_out = {"__weakref__", "__dict__", *getattr(cls, "PASSING", ())}
    return tuple(name for name in slots_in_order if name not in left_out)


class StateMarker(Enum):
    """`EMPTY` stands for a first value that has not arrived yet, `NOWHERE` for an item that no key finds."""

    EMPTY = "empty"
    NOWHERE = "nowhere"

    def __repr__(self) -> str:
        return self.name


_DRAWN_AHEAD = 256  # coins drawn at once


class CoinTosses(State):
    """The coin tosses that follow from a seed: those drawn ahead, and the state of the generator after them."""

    __slots__ = ("_generator", "_next", "_tosses")

    def __init__(self, seed: int) -> None:
        self._generator: Any = random.Random(seed).getstate()
        self._tosses: list[float] = []
        self._next = 0

    def heads(self) -> bool:
        """Toss the next coin."""
        if self._next == len(self._tosses):
            generator = random.Random()
            generator.setstate(self._generator)
            self._tosses = [generator.random() for _ in range(_DRAWN_AHEAD)]
            self._generator = generator.getstate()
            self._next = 0
        self._next += 1
        return self._tosses[self._next - 1] < 0.5
