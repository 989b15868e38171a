"""Builders of trees."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

from cepbook.lang.tree_builder import compile_builder


@dataclass(frozen=True, slots=True)
class Leaf:
    value: object


def test_a_builder_makes_trees_around_values_and_is_freed_without_the_collector() -> None:
    shared = Leaf("shared")
    build = compile_builder("x", (Leaf(1), shared), lambda value: "x" if value == 1 else None)
    assert build(7) == (Leaf(7), shared)
    gc.disable()
    try:
        freed = weakref.ref(build)
        del build
        assert freed() is None
    finally:
        gc.enable()
