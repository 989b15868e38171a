"""What a data window contributes to generated code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cepbook.engine.rows.code import Code


@dataclass(frozen=True, slots=True)
class Sliding:
    """A window that takes and drops events one by one.

    `fresh(code)` is code of an empty window. `arrive(code, w, item, drops)` writes code that puts `item` into window
    `w` and returns the local that then holds the one item that left (or GONE), None if nothing ever leaves by an
    arrival; with `drops` False nobody looks at what left. `contents(w)` is code of an iterable of the items, in order.
    """

    fresh: Callable[[Code], str]
    arrive: Callable[[Code, str, str, bool], str | None]
    contents: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Batch:
    """A window that collects events and releases them together.

    `grid(code)` is code of a point of its release grid that is known from the start (``None`` if none is).
    `arrive(code, w, count)` writes what an arrival does after it was collected in window state ``w`` (see `batches`);
    with `count`, the code of the number of collected events, it calls ``release`` when the batch is full.
    """

    grid: Callable[[Code], str]
    arrive: Callable[[Code, str, str], None]
